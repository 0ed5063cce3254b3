// The scenario that both generations of the TypeScript SDK play as clients; they differ in their
// imports and in how handlers are named, which the files beside this one settle.

const PATIENCE = 15_000;
// More than a pipe holds, in characters of every length, with a line break that is none in JSON.
const LARGE = 'a\u00e4\u20ac\u{1f600}\u2028'.repeat(80_000);

function bounded(promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error('no outcome in time')), PATIENCE);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

const FORM = process.env.INTEROP_FORM;
// What never comes in this form of transport is not waited for as long.
const POOR = FORM === 'json';
// What no server without sessions can do.
const NEEDS_SESSION = /^(cancel|time-out|log|grow|subscribe|sample|roots|elicit .*)$/;
// What the revision without a handshake and sessions has left behind, and what only it has.
const MODERN = '2026-07-28';
const OLDER_ERA = /^(ping|roots changed)$/;
const NEWER_ERA = /^together$/;
const TURNS = POOR ? 100 : 1000;

// What does not come stays out of the outcome, where the test finds it missing.
async function until(condition) {
  for (let turn = 0; turn < TURNS && !condition(); turn += 1) {
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

function told(result) {
  return {
    error: result.isError ?? false,
    text: result.content.filter((block) => block.type === 'text').map((block) => block.text).join(' '),
    structured: result.structuredContent ?? null,
    types: result.content.map((block) => block.type),
  };
}

export const CAPABILITIES = { sampling: {}, roots: { listChanged: true }, elicitation: {} };

export function answers() {
  const actions = ['accept', 'decline', 'cancel', 'accept'];
  return {
    sample: (request) => ({
      role: 'assistant',
      content: { type: 'text', text: `echo ${[request.params.messages[0].content].flat()[0].text}` },
      model: 'parrot',
      stopReason: 'endTurn',
    }),
    elicit: () => {
      const action = actions.shift();
      return action === 'accept' ? { action, content: { name: 'Ada', age: 36 } } : { action };
    },
    roots: () => ({ roots: [{ uri: 'file:///work', name: 'work' }] }),
  };
}

export function transportTo(kinds, command, args) {
  if (command.endsWith('/sse')) return new kinds.SSEClientTransport(new URL(command));
  if (command.startsWith('http://')) return new kinds.StreamableHTTPClientTransport(new URL(command));
  return new kinds.StdioClientTransport({ command, args });
}

export async function play(client, transport, heard, revisionOf) {
  const outcomes = {};
  const step = async (name, work) => {
    if (FORM === 'stateless' && NEEDS_SESSION.test(name)) return;
    if ((outcomes.opened?.revision === MODERN ? OLDER_ERA : NEWER_ERA).test(name)) return;
    try {
      outcomes[name] = (await bounded(work())) ?? null;
    } catch (error) {
      outcomes[name] = { error: { type: error.name, code: error.code ?? null, text: error.message } };
    }
  };
  try {
    await bounded(client.connect(transport));
    await tools(client, heard, step, revisionOf);
    await questions(client, step);
    await resources(client, heard, step, revisionOf);
    await prompts(client, step);
    await step('counted on', () => count(client, heard, 5));
    // A session of HTTP is only ended when it is said so.
    if (transport.sessionId !== undefined) await bounded(transport.terminateSession());
    await bounded(client.close());
    outcomes.closed = true;
  } catch (error) {
    outcomes.broken = { error: String(error) };
  } finally {
    process.stdout.write(JSON.stringify(outcomes) + '\n');
  }
}

async function everyPage(fetch, member) {
  let page = await fetch();
  let pages = 1;
  const entries = [...page[member]];
  while (page.nextCursor !== undefined) {
    page = await fetch({ cursor: page.nextCursor });
    pages += 1;
    entries.push(...page[member]);
  }
  return { entries, pages };
}

async function tools(client, heard, step, revisionOf) {
  const isModern = () => revisionOf(client) === MODERN;
  const call = async (name, args = {}) => told(await client.callTool({ name, arguments: args }));
  const list = () => everyPage((params) => client.listTools(params), 'tools');
  const waitFor = async (options) => {
    const raised = await client
      .callTool({ name: 'wait', arguments: {} }, ...options)
      .then(() => null, (error) => error.name);
    return { raised, ...(await call('cancelled')) };
  };

  await step('opened', async () => ({
    revision: revisionOf(client),
    server: [client.getServerVersion().name, client.getServerVersion().version],
    instructions: client.getInstructions(),
    capabilities: Object.keys(client.getServerCapabilities()).sort(),
  }));
  await step('tools', async () => {
    const { entries, pages } = await list();
    return { names: entries.map((tool) => tool.name), pages, first: entries[0] };
  });
  await step('add', () => call('add', { a: 1, b: 2 }));
  await step('weather', () => call('weather', { city: 'Oslo' }));
  await step('fail', () => call('fail'));
  await step('media', () => call('media'));
  await step('unknown tool', () => call('nothing'));
  await step('bad arguments', () => call('add', { a: 'x', b: 2 }));
  await step('progress', () => count(client, heard, 3));
  await step('cancel', async () => {
    const aborter = new AbortController();
    const onprogress = () => aborter.abort('no longer wanted');
    if (POOR) setTimeout(onprogress, 500);
    const { raised, ...rest } = await waitFor(heard.options({ signal: aborter.signal, onprogress }));
    return { 'gave up': raised !== null, ...rest };
  });
  await step('time-out', () => waitFor(heard.options({ timeout: 500 })));
  await step('log', async () => {
    const level = isModern() ? { _meta: { 'io.modelcontextprotocol/logLevel': 'warning' } } : {};
    if (!isModern()) await client.setLoggingLevel('warning');
    const say = (args) => client.callTool({ name: 'say', arguments: args, ...level });
    await say({ level: 'info', text: 'unheard' });
    await say({ level: 'error', text: 'heard' });
    await until(() => heard.logs.length > 0);
    return heard.logs;
  });
  await step('grow', async () => {
    const listening = isModern() && (await client.listen({ toolsListChanged: true }));
    await call('grow');
    await until(() => heard.changes.length > 0);
    if (listening) await listening.close();
    const { entries } = await list();
    const isNew = entries.some((tool) => tool.name === 'extra');
    return { changes: heard.changes, new: isNew, ...(await call('extra')) };
  });
  await step('large', async () => (await call('echo', { text: LARGE })).text === LARGE);
  await step('at once', async () => {
    const calls = Array.from({ length: 20 }, (_, each) => call('add', { a: each, b: each }));
    return (await Promise.all(calls)).map((each) => each.text);
  });
  await step('invalid cursor', async () => (await client.listTools({ cursor: 'nonsense' })).tools.length);
  await step('ping', async () => {
    const { _meta, resultType, ...rest } = await client.ping();
    return rest;
  });
}

async function count(client, heard, to) {
  const seen = [];
  const onprogress = (now) => seen.push([now.progress, now.total ?? null, now.message ?? null]);
  const result = await client.callTool({ name: 'count', arguments: { to } }, ...heard.options({ onprogress }));
  await until(() => seen.length === to);
  return { seen, ...told(result) };
}

async function questions(client, step) {
  const call = async (name, args = {}) => told(await client.callTool({ name, arguments: args }));
  await step('sample', () => call('ask_model', { question: 'hello' }));
  await step('elicit accept', () => call('ask_user', { question: 'who?' }));
  await step('elicit decline', () => call('ask_user', { question: 'who?' }));
  await step('elicit cancel', () => call('ask_user', { question: 'who?' }));
  await step('roots', () => call('folders'));
  await step('together', () => call('ask_together', { question: 'who?' }));
  await step('roots changed', () => client.sendRootsListChanged());
}

async function resources(client, heard, step, revisionOf) {
  const read = async (uri) => {
    const held = (await client.readResource({ uri })).contents[0];
    return [held.uri, held.mimeType, held.text ?? held.blob];
  };
  const uri = 'memo://today';
  const touch = () => client.callTool({ name: 'touch', arguments: { uri } });

  await step('resources', async () => {
    const { entries } = await everyPage((params) => client.listResources(params), 'resources');
    return entries.map((each) => [each.uri, each.mimeType]);
  });
  await step('templates', async () => {
    const { entries } = await everyPage((params) => client.listResourceTemplates(params), 'resourceTemplates');
    return entries.map((each) => each.uriTemplate);
  });
  await step('read text', () => read(uri));
  await step('read blob', () => read('memo://logo'));
  await step('read template', () => read('memo://notes/monday'));
  await step('read missing', () => read('memo://nowhere'));
  await step('subscribe', async () => {
    if (revisionOf(client) === MODERN) {
      const listening = await client.listen({ resourceSubscriptions: [uri] });
      await touch();
      await until(() => heard.updates.length > 0);
      await listening.close();
      await touch();
      return heard.updates;
    }
    await client.subscribeResource({ uri });
    await touch();
    await until(() => heard.updates.length > 0);
    await client.unsubscribeResource({ uri });
    await touch();
    await client.ping();
    return heard.updates;
  });
}

async function prompts(client, step) {
  const get = async (name, args) => {
    const { messages } = await client.getPrompt({ name, arguments: args });
    return messages.map(({ role, content }) => [role, content.text ?? content.type]);
  };
  const complete = async (ref, name, value, more = {}) =>
    (await client.complete({ ref, argument: { name, value }, ...more })).completion.values;

  await step('prompts', async () => {
    const { entries } = await everyPage((params) => client.listPrompts(params), 'prompts');
    return entries.map((each) => [each.name, (each.arguments ?? []).map((a) => [a.name, a.required ?? false])]);
  });
  await step('prompt', () => get('greet', { name: 'Ada' }));
  await step('long prompt', () => get('tour', {}));
  await step('unknown prompt', () => get('nothing', {}));
  await step('missing argument', () => get('greet', {}));
  await step('complete prompt', () => complete({ type: 'ref/prompt', name: 'greet' }, 'mood', 'h'));
  await step('complete template', () =>
    complete({ type: 'ref/resource', uri: 'memo://notes/{name}' }, 'name', 'mo'),
  );
  await step('complete in context', () =>
    complete({ type: 'ref/prompt', name: 'greet' }, 'mood', '', {
      context: { arguments: { name: 'Marvin' } },
    }),
  );
}
