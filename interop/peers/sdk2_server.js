// A server written with the TypeScript SDK of the second generation, `@modelcontextprotocol/server`.
//
//     node sdk2_server.js [http [ANYTHING] | REVISION]
import { NodeStreamableHTTPServerTransport, toNodeHandler } from '@modelcontextprotocol/node';
import { McpServer, ResourceTemplate, completable, createMcpHandler, inputRequired } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import * as z from 'zod';

import { askOnWire, offer } from './offer.js';
import { serveHttp } from './serving.js';

const requests = (server) => ({
  'sampling/createMessage': (ctx, params) => ctx.mcpReq.requestSampling(params),
  'elicitation/create': (ctx, params) => ctx.mcpReq.elicitInput(params),
  'roots/list': () => server.server.listRoots(),
});

// Ask by the answer to a call, which comes again with the answers.
async function askInRounds(ctx, inputRequests) {
  const answers = ctx.mcpReq.inputResponses;
  return answers ? { answers } : { otherwise: inputRequired({ inputRequests, requestState: 'asked' }) };
}

function make({ era } = { era: 'legacy' }, state = undefined) {
  const server = new McpServer(
    { name: 'interop', version: '1.2.3' },
    { capabilities: { logging: {}, resources: { subscribe: true } }, instructions: 'Call anything.' },
  );
  const subscribed = offer(server, {
    ResourceTemplate,
    shape: (members) => z.object(members),
    mood: (complete) => completable(z.string(), complete).optional(),
    progressOf: (ctx) => [ctx.mcpReq._meta?.progressToken, ctx.mcpReq.notify],
    signalOf: (ctx) => ctx.mcpReq.signal,
    log: (ctx, params) => ctx.mcpReq.log(params.level, params.data, params.logger),
    ask: era === 'modern' ? askInRounds : askOnWire(requests(server)),
    isModern: () => era === 'modern',
  }, state);
  if (era === 'modern') return server;
  server.server.setRequestHandler('resources/subscribe', ({ params }) => {
    subscribed.add(params.uri);
    return {};
  });
  server.server.setRequestHandler('resources/unsubscribe', ({ params }) => {
    subscribed.delete(params.uri);
    return {};
  });
  return server;
}

// A server of the newest era is made for each request: what it remembers is kept beside it.
function stateless(options) {
  const state = { cancelled: 0, waiting: 0, hasGrown: false };
  const handler = createMcpHandler((context) => make(context, state), options);
  state.notify = handler.notify;
  return toNodeHandler(handler);
}

if (process.argv[2] === 'http') {
  const others = { '/modern': stateless({ legacy: 'reject' }), '/both': stateless({}) };
  serveHttp(make, { Transport: NodeStreamableHTTPServerTransport, others });
} else {
  // With a revision it refuses all others.
  serveStdio((context) => make(context), process.argv[2] ? { legacy: 'reject' } : {});
}
