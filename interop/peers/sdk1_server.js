// A server written with the TypeScript SDK of the first generation, `@modelcontextprotocol/sdk`.
import { McpServer, ResourceTemplate } from '@modelcontextprotocol/sdk/server/mcp.js';
import { completable } from '@modelcontextprotocol/sdk/server/completable.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { SubscribeRequestSchema, UnsubscribeRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import * as z from 'zod';

import { offer } from './offer.js';

const server = new McpServer(
  { name: 'interop', version: '1.2.3' },
  { capabilities: { logging: {}, resources: { subscribe: true } }, instructions: 'Call anything.' },
);
const subscribed = offer(server, {
  ResourceTemplate,
  shape: (members) => members,
  mood: (complete) => completable(z.string().optional(), complete),
  progressOf: (extra) => [extra._meta?.progressToken, extra.sendNotification],
  signalOf: (extra) => extra.signal,
  log: (extra, params) => server.sendLoggingMessage(params),
  sample: (extra, params) => server.server.createMessage(params),
  elicit: (extra, params) => server.server.elicitInput(params),
  roots: () => server.server.listRoots(),
});
server.server.setRequestHandler(SubscribeRequestSchema, ({ params }) => {
  subscribed.add(params.uri);
  return {};
});
server.server.setRequestHandler(UnsubscribeRequestSchema, ({ params }) => {
  subscribed.delete(params.uri);
  return {};
});
await server.connect(new StdioServerTransport());
