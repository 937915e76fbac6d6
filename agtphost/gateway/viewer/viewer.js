// Shows the OpenAPI document for the caller who opens the page. A token is kept only in this page, until it is closed.
"use strict";

(() => {
  const place = "/.well-known/openapi.json";
  const said = document.getElementById("said");
  let token = "";

  const signed = (request) => {
    // Only to the host that served this page.
    if (token && new URL(request.url, location.href).origin === location.origin) {
      request.headers.Authorization = `Bearer ${token}`;
    }
    return request;
  };

  const show = async () => {
    const headers = token ? { Authorization: `Bearer ${token}` } : {};
    const answer = await fetch(place, { headers, cache: "no-cache" });
    const found = await answer.json();
    if (!answer.ok) {
      said.textContent = `${answer.headers.get("AGTP-Status") ?? answer.status}: ${found.explanation ?? ""} ${found.remedy ?? ""}`;
      document.getElementById("shown").replaceChildren();
      return;
    }
    const who = found.info["x-agtp"] ?? {};
    said.textContent = `${Object.keys(found.paths).length} paths for ${who.agent_id ?? "anybody"}, known by ${who.assurance}.`;
    window.ui = SwaggerUIBundle({
      spec: found,
      domNode: document.getElementById("shown"),
      presets: [SwaggerUIBundle.presets.apis],
      layout: "BaseLayout",
      deepLinking: false,
      validatorUrl: null,
      requestInterceptor: signed,
    });
  };

  const begin = () => show().catch((error) => { said.textContent = String(error); });

  document.getElementById("who").addEventListener("submit", (event) => {
    event.preventDefault();
    token = document.getElementById("token").value.trim();
    begin();
  });
  begin();
})();
