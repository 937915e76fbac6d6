{{- define "agtphost.name" -}}
{{- if contains "agtphost" .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-agtphost" .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "agtphost.selector" -}}
app.kubernetes.io/name: agtphost
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "agtphost.labels" -}}
{{ include "agtphost.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "agtphost.image" -}}
image: {{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy | default "IfNotPresent" }}
{{- end -}}

{{- /* A member of a ConfigMap has no slash in its name. */ -}}
{{- define "agtphost.files" -}}
{{- range $path, $text := .Values.files }}
{{ $path | replace "/" "__" }}: {{ $text | quote }}
{{- end }}
{{- end -}}

{{- define "agtphost.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "agtphost.security" -}}
readOnlyRootFilesystem: true
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
{{- end -}}

{{- /*
Puts the deployment together from the ConfigMap and the Secret. A host refuses keys that others than their owner may
read, and files of a Secret belong to root and are readable for a group: so they are copied, into memory.
*/ -}}
{{- define "agtphost.assembly" -}}
- name: deployment
  {{- include "agtphost.image" . | nindent 2 }}
  command: ["/bin/sh", "-ec"]
  args:
    - |
      umask 077
      cp -RL /given/files/* /etc/agtphost/
      mkdir -p /etc/agtphost/keys
      cp -L /given/keys/* /etc/agtphost/keys/
  securityContext:
    {{- include "agtphost.security" . | nindent 4 }}
  volumeMounts:
    - {name: files, mountPath: /given/files, readOnly: true}
    - {name: keys, mountPath: /given/keys, readOnly: true}
    - {name: deployment, mountPath: /etc/agtphost}
{{- end -}}

{{- define "agtphost.mounts" -}}
- {name: deployment, mountPath: /etc/agtphost, readOnly: true}
- {name: database, mountPath: /run/secrets/database, subPath: database, readOnly: true}
- {name: state, mountPath: /var/lib/agtphost}
- {name: tmp, mountPath: /tmp}
{{- end -}}

{{- /* Called with the name of the ConfigMap in "configMap". */ -}}
{{- define "agtphost.volumes" -}}
- name: files
  configMap:
    name: {{ .configMap }}
    items:
      {{- range $path, $text := .Values.files }}
      - {key: {{ $path | replace "/" "__" | quote }}, path: {{ $path | quote }}}
      {{- end }}
- name: keys
  secret:
    secretName: {{ .Values.keys.secretName }}
    defaultMode: 0440
- name: database
  secret:
    secretName: {{ .Values.database.secretName }}
    defaultMode: 0440
    items:
      - {key: {{ .Values.database.secretKey | quote }}, path: database}
- name: deployment
  emptyDir:
    medium: Memory
    sizeLimit: 32Mi
- name: state
  emptyDir: {}
- name: tmp
  emptyDir: {}
{{- end -}}
