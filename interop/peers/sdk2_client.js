// A client written with the TypeScript SDK of the second generation, `@modelcontextprotocol/client`.
//
//     node sdk2_client.js REVISION COMMAND... | URL
import { Client, SSEClientTransport, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

import { CAPABILITIES, answers, play, transportTo } from './scenario.js';

const [, , revision, command, ...args] = process.argv;
// Users of the second generation ask for the newest era, and fall back.
const HOW = {
  default: { versionNegotiation: { mode: 'auto' } },
  '2026-07-28': { versionNegotiation: { mode: { pin: '2026-07-28' } } },
};
const heard = { logs: [], changes: [], updates: [], options: (options) => [options] };
const client = new Client(
  { name: 'sdk-2', version: '2' },
  {
    capabilities: CAPABILITIES,
    ...(HOW[revision] ?? { supportedProtocolVersions: [revision] }),
  },
);
const { sample, elicit, roots } = answers();

client.setRequestHandler('sampling/createMessage', sample);
client.setRequestHandler('elicitation/create', elicit);
client.setRequestHandler('roots/list', roots);
client.setNotificationHandler('notifications/message', ({ params }) => {
  heard.logs.push([params.level, params.data, params.logger]);
});
client.setNotificationHandler('notifications/tools/list_changed', () => {
  heard.changes.push('tools');
});
client.setNotificationHandler('notifications/resources/updated', ({ params }) => {
  heard.updates.push(params.uri);
});

const transport = transportTo({ StdioClientTransport, SSEClientTransport, StreamableHTTPClientTransport }, command, args);
await play(client, transport, heard, () => client.getNegotiatedProtocolVersion());
