// A server on the official TypeScript SDK with one tool that works as a task alone, and tells how far it is.
// node task_server.mjs SDK, the folder of @modelcontextprotocol/sdk

import { join } from "node:path";
import { pathToFileURL } from "node:url";

const sdk = (name) => import(pathToFileURL(join(process.argv[2], "dist/esm", name)));
const { McpServer } = await sdk("server/mcp.js");
const { StdioServerTransport } = await sdk("server/stdio.js");
const { InMemoryTaskMessageQueue, InMemoryTaskStore } = await sdk("experimental/tasks/index.js");

const server = new McpServer(
  { name: "tasks", version: "1" },
  {
    capabilities: { tools: {}, tasks: { requests: { tools: { call: {} } } } },
    taskStore: new InMemoryTaskStore(),
    taskMessageQueue: new InMemoryTaskMessageQueue(),
  },
);

async function work(taskId, store, token) {
  for (let step = 1; step <= 3; step++) {
    await new Promise((done) => setTimeout(done, 100));
    if (token !== undefined) {
      const params = { progressToken: token, progress: step, total: 3, message: `step ${step}` };
      await server.server.notification({ method: "notifications/progress", params });
    }
  }
  await store.storeTaskResult(taskId, "completed", { content: [{ type: "text", text: "worked" }] });
}

server.experimental.tasks.registerToolTask(
  "work",
  { description: "Works in three steps", execution: { taskSupport: "required" } },
  {
    createTask: async (extra) => {
      const task = await extra.taskStore.createTask({ ttl: 60000, pollInterval: 50 });
      work(task.taskId, extra.taskStore, extra._meta?.progressToken);
      return { task };
    },
    getTask: async (extra) => await extra.taskStore.getTask(extra.taskId),
    getTaskResult: async (extra) => await extra.taskStore.getTaskResult(extra.taskId),
  },
);

await server.connect(new StdioServerTransport());
