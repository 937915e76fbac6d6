// node front_client.mjs CLIENT URL TOKEN WORDS: the official TypeScript client; CLIENT is its folder, WORDS what it says.
import { pathToFileURL } from "node:url";

const [folder, url, token, words] = process.argv.slice(2);
const { Client, StreamableHTTPClientTransport } = await import(pathToFileURL(`${folder}/dist/index.mjs`));
const headers = { Authorization: `Bearer ${token}` };
const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
const client = new Client({ name: "front-client", version: "1" });
await client.connect(transport);
const { tools } = await client.listTools();
const answer = await client.callTool({ name: "echo_text", arguments: { text: words } });
console.log(JSON.stringify({ tools: tools.map((tool) => tool.name), said: answer.structuredContent, meta: answer._meta }));
await client.close();
