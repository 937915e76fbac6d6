// node generated_tools.js URL TOKEN: calls each tool by a client that was generated from the document.
import { client } from "./gen/client.gen";
import * as sdk from "./gen/sdk.gen";
import type { FetchFetchStructured } from "./gen/types.gen";

declare const process: { argv: string[] };

const [baseUrl, token] = process.argv.slice(2);
const called: Record<string, number> = {};
client.setConfig({ baseUrl, auth: token });
client.interceptors.response.use((response, request) => {
  called[new URL(request.url).pathname] = response.status;
  return response;
});

// A number is no address: the types of the tool's arguments say so.
// @ts-expect-error
const wrong: Parameters<typeof sdk.fetchFetch>[0] = { body: { address: 5 } };

async function main(): Promise<void> {
  const answer = await sdk.fetchFetch({ body: { address: "shelf", limit: 3 } });
  if (!answer.data || !("result" in answer.data)) throw new Error("it was not answered");
  const page: FetchFetchStructured | undefined = answer.data.result.tool_response.structuredContent;
  const text = await sdk.filesReadFile({ body: { path: "welcome.txt" } });
  if (!text.data || !("result" in text.data)) throw new Error("it was not answered");
  const refused = await sdk.fetchFetch(wrong);
  await sdk.fetchSearch({ body: { address: "shelf" } });
  const words = [
    sdk.fetch50, sdk.fetchRead, sdk.fetchRead2, sdk.fetchAB, sdk.fetchAB2, sdk.fetchFail, sdk.fetchFetchFetch,
    sdk.fetchGrE, sdk.fetchParameters, sdk.fetchQuery, sdk.fetchVault, sdk.fetchBrace,
  ];
  for (const call of words) await call({ body: { text: "t" } });
  await sdk.fetchChoose({ body: { answer: "Yes", rows: [1] } });
  await sdk.filesListFiles({ body: {} });
  await sdk.filesSearchText({ body: { query: "t" } });
  await sdk.filesWriteNote({ body: { name: "n", text: "t" } });
  await sdk.filesDeleteNote({ body: { name: "n" } });
  const again = await sdk.fetchFetch({ body: { address: "again" } });
  console.log(JSON.stringify({
    page: [page?.address, page?.words, page?.links?.[0]?.to],
    text: text.data.result.tool_response.content?.[0]?.text?.slice(0, 7),
    wrong: [refused.response?.status, "error" in refused ? refused.error?.reason : ""],
    again: again.data?.status,
    called,
  }));
}

void main();
