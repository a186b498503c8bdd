// What the official suite asks of a server, on the official TypeScript SDK: node conformance.mjs PORT SKILLS
// The names, arguments and answers are the suite's; everything else is as plain as it can be.
import { randomBytes, randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { CLIENT_CAPABILITIES_META_KEY, McpServer, ResourceTemplate, acceptedContent, classifyInboundRequest, createMcpHandler,
  createRequestStateCodec, fromJsonSchema, inputRequired, isInitializeRequest } from '@modelcontextprotocol/server';
import { loadSkills } from '@modelcontextprotocol/server/ext/skills/node';
import { NodeStreamableHTTPServerTransport, localhostHostValidation, localhostOriginValidation, toNodeHandler } from '@modelcontextprotocol/node';
import { z } from 'zod';

const [port, folder] = process.argv.slice(2);
const skills = await loadSkills(folder);
const sessions = new Map();
const states = createRequestStateCodec({ key: new Uint8Array(randomBytes(32)) });

// One pixel, and no sound at all.
const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const SILENCE = 'UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=';

const says = (...content) => ({ content: content.map((part) => (typeof part === 'string' ? { type: 'text', text: part } : part)) });
const image = { type: 'image', data: PIXEL, mimeType: 'image/png' };
const embedded = (uri, text, mimeType) => ({ type: 'resource', resource: { uri, text, mimeType } });
const object = (properties, required) => ({ type: 'object', properties, ...(required && { required }) });
const elicited = (message, properties, required) => ({ message, requestedSchema: object(properties, required) });
const pause = () => new Promise((done) => setTimeout(done, 50));
const nothing = z.object({});

// Questions that an answer has to wait for (2026-07-28).
const questions = {
  name: inputRequired.elicit(elicited('What is your name?', { name: { type: 'string' } }, ['name'])),
  sure: inputRequired.elicit(elicited('Are you sure?', { ok: { type: 'boolean' } }, ['ok'])),
  model: inputRequired.createMessage({ messages: [{ role: 'user', content: { type: 'text', text: 'What is the capital of France?' } }], maxTokens: 32 }),
  roots: inputRequired.listRoots(),
};
const asks = (inputRequests, requestState) => inputRequired({ inputRequests, ...(requestState && { requestState }) });
const answers = (context) => context.mcpReq.inputResponses ?? {};
const state = (about, more) => states.mint({ about, once: randomUUID(), ...more });

const CHOICES = (word) => ['1', '2', '3'].map((n) => ({ const: `value${n}`, title: `${word} ${n}` }));
const DEFAULTS = {
  name: { type: 'string', default: 'John Doe' }, age: { type: 'integer', default: 30 }, score: { type: 'number', default: 95.5 },
  status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' }, verified: { type: 'boolean', default: true },
};
const ENUMS = {
  untitledSingle: { type: 'string', enum: ['option1', 'option2', 'option3'] },
  titledSingle: { type: 'string', oneOf: CHOICES('Option') },
  legacyEnum: { type: 'string', enum: ['opt1', 'opt2', 'opt3'], enumNames: ['First', 'Second', 'Third'] },
  untitledMulti: { type: 'array', items: { type: 'string', enum: ['option1', 'option2', 'option3'] } },
  titledMulti: { type: 'array', items: { anyOf: CHOICES('Choice') } },
};
const ADDRESS_BOOK = {
  $schema: 'https://json-schema.org/draft/2020-12/schema', type: 'object', additionalProperties: false,
  $defs: { address: { $anchor: 'addressDef', ...object({ street: { type: 'string' }, city: { type: 'string' } }) } },
  properties: { name: { type: 'string' }, address: { $ref: '#/$defs/address' }, phone: { type: 'string' }, email: { type: 'string' },
    contactMethod: { type: 'string', enum: ['phone', 'email'] } },
  allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
  if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] }, then: { required: ['phone'] }, else: { required: ['email'] },
};

// Tools without arguments that answer at once.
const SIMPLE = {
  test_simple_text: () => says('This is a simple text response for testing.'),
  test_image_content: () => says(image),
  test_audio_content: () => says({ type: 'audio', data: SILENCE, mimeType: 'audio/wav' }),
  test_embedded_resource: () => says(embedded('test://embedded-resource', 'This is an embedded resource content.', 'text/plain')),
  test_multiple_content_types: () => says('Multiple content types test:', image,
    embedded('test://mixed-content-resource', '{"test":"data","value":123}', 'application/json')),
  test_error_handling: () => { throw new Error('This tool intentionally returns an error for testing'); },
};

// Tools without arguments that do something with the request that they are called by.
const WITH_CONTEXT = {
  async test_tool_with_logging(context) {
    for (const data of ['Tool execution started', 'Tool processing data', 'Tool execution completed']) {
      await context.mcpReq.notify({ method: 'notifications/message', params: { level: 'info', data } });
      await pause();
    }
    return says('Tool with logging executed successfully');
  },
  async test_tool_with_progress(context) {
    const progressToken = context.mcpReq._meta?.progressToken ?? 0;
    for (const progress of [0, 50, 100]) {
      await context.mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress, total: 100 } });
      await pause();
    }
    return says(String(progressToken));
  },
  async test_reconnection(context) {
    sessions.get(context.sessionId)?.closeSSEStream(context.mcpReq.id);
    await pause();
    return says('Reconnection test completed successfully.');
  },
  async test_logging_tool(context) { await context.mcpReq.log('info', 'logged'); return says('logged'); },
  test_streaming_elicitation: () => says('nothing but the result'),
  test_elicitation_sep1034_defaults: (context) => elicit(context, elicited('Look through the defaults', DEFAULTS)),
  test_elicitation_sep1330_enums: (context) => elicit(context, elicited('Choose', ENUMS)),
  test_missing_capability: (context) => (answers(context).llm_answer ? says('done') : asks({ llm_answer: questions.model })),
  test_input_required_result_elicitation(context) {
    const name = acceptedContent(answers(context), 'user_name')?.name;
    return typeof name === 'string' ? says(`Hello, ${name}!`) : asks({ user_name: questions.name });
  },
  test_input_required_result_sampling(context) {
    const said = answers(context).capital_question;
    return said ? says(`Sampling response: ${said.content?.text}`) : asks({ capital_question: questions.model });
  },
  test_input_required_result_list_roots(context) {
    const roots = answers(context).client_roots?.roots;
    return roots ? says(`Client exposed ${roots.length} root(s)`) : asks({ client_roots: questions.roots });
  },
  async test_input_required_result_multiple_inputs(context) {
    const { user_name, greeting, client_roots } = answers(context);
    if (user_name && greeting && client_roots) return says('Multiple inputs received');
    return asks({ user_name: questions.name, greeting: questions.model, client_roots: questions.roots }, await state('several'));
  },
  async test_input_required_result_multi_round(context) {
    const round = context.mcpReq.requestState()?.round ?? 0;
    return round === 2 ? says('Multi-round complete') : asks({ [`step${round + 1}`]: questions.name }, await state('rounds', { round: round + 1 }));
  },
  test_input_required_result_capabilities(context) {
    if (context.mcpReq.inputResponses) return says('fulfilled');
    const can = context.mcpReq.envelope?.[CLIENT_CAPABILITIES_META_KEY] ?? {};
    const wanted = Object.entries({ elicitation: ['user_name', questions.name], sampling: ['greeting', questions.model], roots: ['client_roots', questions.roots] })
      .filter(([capability]) => can[capability]).map(([, question]) => question);
    return wanted.length ? asks(Object.fromEntries(wanted)) : says('it can be asked nothing');
  },
  test_trigger_tool_change() { modern.notify.toolsChanged(); return says('told'); },
  test_trigger_prompt_change() { modern.notify.promptsChanged(); return says('told'); },
};
for (const [about, words] of [['request_state', 'state-ok'], ['tampered_state', 'integrity-ok']]) {
  WITH_CONTEXT[`test_input_required_result_${about}`] = async (context) => {
    const is_answered = context.mcpReq.requestState() && acceptedContent(answers(context), 'confirm');
    return is_answered ? says(`${words}: requestState verified`) : asks({ confirm: questions.sure }, await state(about));
  };
}

async function elicit(context, params) {
  const { action, content } = await context.mcpReq.send({ method: 'elicitation/create', params });
  return says(`Elicitation completed: action=${action}, content=${JSON.stringify(content ?? {})}`);
}

async function sample({ prompt }, context) {
  const params = { messages: [{ role: 'user', content: { type: 'text', text: prompt } }], maxTokens: 100 };
  const { content } = await context.mcpReq.send({ method: 'sampling/createMessage', params });
  return says(`LLM response: ${content?.text}`);
}

function addTools(mcp) {
  for (const [name, run] of Object.entries(SIMPLE)) mcp.registerTool(name, { description: name }, run);
  for (const [name, run] of Object.entries(WITH_CONTEXT)) mcp.registerTool(name, { description: name, inputSchema: nothing }, (_, context) => run(context));
  const taking = (name, inputSchema, run) => mcp.registerTool(name, { description: name, inputSchema }, run);
  taking('test_sampling', z.object({ prompt: z.string() }), sample);
  taking('test_elicitation', z.object({ message: z.string() }), ({ message }, context) => elicit(context, elicited(message, { response: { type: 'string' } }, ['response'])));
  taking('json_schema_2020_12_tool', fromJsonSchema(ADDRESS_BOOK), (given) => says(JSON.stringify(given)));
  taking('test_x_mcp_header', fromJsonSchema(object({ region: { type: 'string', 'x-mcp-header': 'Region' }, level: { type: 'integer' } })),
    ({ region }) => says(`region=${region}`));
}

function addResources(mcp) {
  const add = (name, uri, mimeType, content) => mcp.registerResource(name, uri, { title: name, description: name, mimeType },
    (found, variables) => ({ contents: [{ uri: String(found), mimeType, ...content(variables) }] }));
  add('static-text', 'test://static-text', 'text/plain', () => ({ text: 'This is the content of the static text resource.' }));
  add('static-binary', 'test://static-binary', 'image/png', () => ({ blob: PIXEL }));
  add('watched-resource', 'test://watched-resource', 'text/plain', () => ({ text: 'It may change.' }));
  add('template', new ResourceTemplate('test://template/{id}/data', { list: undefined }), 'application/json',
    ({ id }) => ({ text: JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` }) }));
}

function addPrompts(mcp) {
  const user = (content) => ({ role: 'user', content: typeof content === 'string' ? { type: 'text', text: content } : content });
  const plain = (name, ...messages) => mcp.registerPrompt(name, { title: name, description: name }, () => ({ messages: messages.map(user) }));
  plain('test_simple_prompt', 'This is a simple prompt for testing.');
  plain('test_prompt_with_image', image, 'Please analyze the image above.');
  mcp.registerPrompt('test_prompt_with_arguments', { description: 'two arguments', argsSchema: z.object({ arg1: z.string(), arg2: z.string() }) },
    ({ arg1, arg2 }) => ({ messages: [user(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`)] }));
  mcp.registerPrompt('test_prompt_with_embedded_resource', { description: 'a resource', argsSchema: z.object({ resourceUri: z.string() }) },
    ({ resourceUri }) => ({ messages: [user(embedded(resourceUri, 'Embedded resource content for testing.', 'text/plain')), user('Please process the embedded resource above.')] }));
  mcp.registerPrompt('test_input_required_result_prompt', { description: 'asks first' }, (context) => {
    const given = acceptedContent(answers(context), 'user_context')?.context;
    if (typeof given === 'string') return { messages: [user(`Use the following context: ${given}`)] };
    return asks({ user_context: inputRequired.elicit(elicited('In what context?', { context: { type: 'string' } }, ['context'])) });
  });
}

function build() {
  const lists = { listChanged: true };
  const capabilities = { tools: lists, prompts: lists, resources: { ...lists, subscribe: true }, logging: {}, completions: {} };
  const mcp = new McpServer({ name: 'conformance', version: '1' }, { capabilities, requestState: { verify: states.verify } });
  addTools(mcp);
  addResources(mcp);
  addPrompts(mcp);
  for (const method of ['resources/subscribe', 'resources/unsubscribe', 'logging/setLevel']) mcp.server.setRequestHandler(method, async () => ({}));
  mcp.server.setRequestHandler('completion/complete', async () => ({ completion: { values: [], total: 0, hasMore: false } }));
  skills.attach(mcp);
  return mcp;
}

// Every event of every stream, so that a stream can be taken up again.
const events = [];
const eventStore = {
  async storeEvent(stream, message) {
    events.push({ id: `${stream}::${String(events.length).padStart(9, '0')}`, stream, message });
    return events.at(-1).id;
  },
  async replayEventsAfter(last, { send }) {
    const [stream] = last.split('::');
    const missed = events.filter((event) => event.stream === stream && event.id > last && Object.keys(event.message ?? {}).length);
    for (const event of missed) await send(event.id, event.message);
    return stream;
  },
};

const modern = createMcpHandler(build);
const answerModern = toNodeHandler(modern);
const isHostAllowed = localhostHostValidation();
const isOriginAllowed = localhostOriginValidation();

async function session(id, body) {
  if (id || !isInitializeRequest(body)) return sessions.get(id);
  const transport = new NodeStreamableHTTPServerTransport({ sessionIdGenerator: randomUUID, eventStore, retryInterval: 5000,
    onsessioninitialized: (made) => sessions.set(made, transport) });
  transport.onclose = () => sessions.delete(transport.sessionId);
  await build().connect(transport);
  return transport;
}

createServer(async (request, response) => {
  if (!isHostAllowed(request, response) || !isOriginAllowed(request, response)) return;
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  let body;
  try { body = JSON.parse(Buffer.concat(chunks)); } catch { body = undefined; }
  const { headers, method: httpMethod } = request;
  const inbound = classifyInboundRequest({ httpMethod, body, protocolVersionHeader: headers['mcp-protocol-version'], mcpMethodHeader: headers['mcp-method'] });
  if (inbound.kind !== 'legacy') return answerModern(request, response, body);
  const id = headers['mcp-session-id'];
  const found = await session(id, body);
  if (found) return found.handleRequest(request, response, body);
  response.writeHead(id ? 404 : 400, { 'content-type': 'application/json' });
  response.end(JSON.stringify({ jsonrpc: '2.0', id: null, error: { code: id ? -32001 : -32000, message: 'There is no such session' } }));
}).listen(Number(port), '127.0.0.1');
