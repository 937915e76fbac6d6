// One request by quiche, through @infisical/quic: PORT TRUST CERTIFICATE KEY, and the request on standard input.
// Prints JSON: the answer, or the code that the host closed the connection with.
const fs = require('node:fs');
const { webcrypto } = require('node:crypto');
const { QUICClient, events } = require('@infisical/quic');

const [port, trust, certificate, key] = process.argv.slice(2);
const read = (path) => fs.readFileSync(path, 'utf8');
let isShown = false;
const show = (found) => {
  if (!isShown) process.stdout.write(JSON.stringify(found) + '\n', () => process.exit(0));
  isShown = true;
};

// What the connection ends with: its own errors carry the code, and so do their causes.
const codeOf = (error) => {
  for (let at = error; at; at = at.cause) {
    if (at.data && at.data.errorCode !== undefined) return at.data.errorCode;
  }
  return undefined;
};

const closed = (error) => {
  const code = codeOf(error);
  if (code !== undefined) show({ closed: code, error: error.name });
};

(async () => {
  let client;
  try {
    client = await QUICClient.createQUICClient({
      host: '127.0.0.1',
      port: Number(port),
      serverName: 'localhost',
      crypto: { ops: { randomBytes: async (data) => { webcrypto.getRandomValues(new Uint8Array(data)); } } },
      config: {
        ca: read(trust), cert: read(certificate), key: read(key), verifyPeer: true, applicationProtos: ['agtp'],
      },
    }, { timer: 30000 });
  } catch (error) {
    closed(error);
    throw error;
  }
  client.connection.addEventListener(events.EventQUICConnectionError.name, (event) => closed(event.detail));
  const stream = client.connection.newStream();
  const writer = stream.writable.getWriter();
  writer.write(fs.readFileSync(0)).then(() => writer.close()).catch(() => {});
  const pieces = [];
  try {
    for await (const piece of stream.readable) pieces.push(piece);
  } catch (error) {
    closed(error);
    return;
  }
  show({ answer: Buffer.concat(pieces).toString() });
})();
