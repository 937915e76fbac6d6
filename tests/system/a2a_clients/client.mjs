/**
 * A client on the official JavaScript SDK: gets the SDK's folder, an address, a binding and a text, and prints as JSON
 * what it saw there: parts, states, and the names of errors.
 */
const [sdk, home, binding, words] = process.argv.slice(2);
const { ClientFactory, ClientFactoryOptions, RestTransportFactory, JsonRpcTransportFactory } = await import(
  `${sdk}/dist/client/index.js`
);
const { Role, TaskState } = await import(`${sdk}/dist/index.js`);

const factory = new ClientFactory(
  ClientFactoryOptions.createFrom(ClientFactoryOptions.default, {
    preferredTransports: [binding],
    transports: [new JsonRpcTransportFactory(), new RestTransportFactory()],
  }),
);
const client = await factory.createFromUrl(home);

let count = 0;
const request = (text, more = {}) => ({
  tenant: "",
  message: {
    messageId: `m-${(count += 1)}`,
    contextId: "",
    taskId: "",
    role: Role.ROLE_USER,
    parts: [{ content: { $case: "text", value: text }, metadata: undefined, filename: "", mediaType: "" }],
    metadata: undefined,
    extensions: [],
    referenceTaskIds: [],
    ...more,
  },
  configuration: undefined,
  metadata: undefined,
});

const failure = async (ask) => {
  try {
    await ask();
    return "";
  } catch (error) {
    return error.constructor.name.replace(/^(JsonRpc|Rest)/, "");
  }
};

const all = async (stream) => {
  const seen = [];
  for await (const event of stream) {
    seen.push(event.payload?.$case ?? "");
  }
  return seen;
};

const answered = await client.sendMessage(request(words));
const task = answered.payload?.value ?? answered;
const unknown = { tenant: "", id: "none" };
const push = { tenant: "", taskId: "none", id: "c", url: "https://example.com/hook", token: "", authentication: undefined };
const named = { tenant: "", taskId: "none", id: "c" };
console.log(
  JSON.stringify({
    sent: TaskState[task.status.state],
    streamed: await all(client.sendMessageStream(request(words))),
    read: TaskState[(await client.getTask({ tenant: "", id: task.id })).status.state],
    errors: {
      get: await failure(() => client.getTask(unknown)),
      cancel: await failure(() => client.cancelTask(unknown)),
      cancelEnded: await failure(() => client.cancelTask({ tenant: "", id: task.id })),
      subscribe: await failure(() => all(client.resubscribeTask(unknown))),
      pushCreate: await failure(() => client.createTaskPushNotificationConfig(push)),
      pushGet: await failure(() => client.getTaskPushNotificationConfig(named)),
      pushList: await failure(() => client.listTaskPushNotificationConfig({ ...named, pageSize: 0, pageToken: "" })),
      pushDelete: await failure(() => client.deleteTaskPushNotificationConfig(named)),
      goOn: await failure(() => client.sendMessage(request(words, { taskId: "none" }))),
    },
  }),
);
