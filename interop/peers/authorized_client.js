// A client of the TypeScript SDKs that has to obtain a token first.
//
//     node authorized_client.js 1|2 URL
//
// Prints what came of it. Nobody is asked: the authorization server redirects at once.
const [, , generation, url] = process.argv;
const { Client, StreamableHTTPClientTransport, UnauthorizedError } =
  generation === '1'
    ? {
        ...(await import('@modelcontextprotocol/sdk/client/index.js')),
        ...(await import('@modelcontextprotocol/sdk/client/streamableHttp.js')),
        ...(await import('@modelcontextprotocol/sdk/client/auth.js')),
      }
    : await import('@modelcontextprotocol/client');

const RETURN = 'http://127.0.0.1:9/callback';
const kept = {};
const asked = [];
const provider = {
  redirectUrl: RETURN,
  clientMetadata: {
    client_name: `sdk-${generation}`,
    redirect_uris: [RETURN],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: process.env.METHOD ?? 'none',
  },
  state: () => 'some-state',
  clientInformation: () => kept.client,
  saveClientInformation: (client) => {
    kept.client = client;
  },
  tokens: () => kept.tokens,
  saveTokens: (tokens) => {
    kept.tokens = tokens;
  },
  redirectToAuthorization: (where) => {
    asked.push(where);
  },
  saveCodeVerifier: (verifier) => {
    kept.verifier = verifier;
  },
  codeVerifier: () => kept.verifier,
};

const open = async () => {
  const client = new Client({ name: `sdk-${generation}`, version: '1' });
  const transport = new StreamableHTTPClientTransport(new URL(url), { authProvider: provider });
  return { client, transport };
};
const first = await open();
let refused = false;
try {
  await first.client.connect(first.transport);
} catch (error) {
  if (!(error instanceof UnauthorizedError)) throw error;
  refused = true;
}
const answer = await fetch(asked[0], { redirect: 'manual' });
const returned = new URL(answer.headers.get('location')).searchParams;
await first.transport.finishAuth(generation === '1' ? returned.get('code') : returned);

const second = await open();
await second.client.connect(second.transport);
const call = async () =>
  (await second.client.callTool({ name: 'whoami', arguments: {} })).content[0].text;
const before = { ...kept.tokens };
const who = await call();
// As if it had been taken back: the client has to refresh.
kept.tokens = { ...kept.tokens, access_token: `${before.access_token}x` };
const again = await call();
await second.client.close();
console.log(
  JSON.stringify({
    refused,
    state: returned.get('state'),
    who,
    again,
    isRotated: kept.tokens.refresh_token !== before.refresh_token,
    asked: asked.length,
  }),
);
