// A server written with the TypeScript SDK of the first generation, `@modelcontextprotocol/sdk`.
//
//     node sdk1_server.js [http]
import { McpServer, ResourceTemplate } from '@modelcontextprotocol/sdk/server/mcp.js';
import { completable } from '@modelcontextprotocol/sdk/server/completable.js';
import { SSEServerTransport } from '@modelcontextprotocol/sdk/server/sse.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { SubscribeRequestSchema, UnsubscribeRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import * as z from 'zod';

import { askOnWire, offer } from './offer.js';
import { serveHttp } from './serving.js';

function make() {
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
    log: (extra, params) => server.sendLoggingMessage(params, extra.sessionId),
    ask: askOnWire({
      'sampling/createMessage': (extra, params) => server.server.createMessage(params),
      'elicitation/create': (extra, params) => server.server.elicitInput(params),
      'roots/list': () => server.server.listRoots(),
    }),
  });
  server.server.setRequestHandler(SubscribeRequestSchema, ({ params }) => {
    subscribed.add(params.uri);
    return {};
  });
  server.server.setRequestHandler(UnsubscribeRequestSchema, ({ params }) => {
    subscribed.delete(params.uri);
    return {};
  });
  return server;
}

if (process.argv[2] === 'http') {
  serveHttp(make, { Transport: StreamableHTTPServerTransport, OlderTransport: SSEServerTransport });
} else {
  await make().connect(new StdioServerTransport());
}
