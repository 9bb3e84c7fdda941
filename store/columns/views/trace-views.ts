/** Views of what is inside a trace: nodes, calls, tools, links, and the search index. */
import { NODE_STREAMS } from '../projections/node.ts';
import { messageSql } from './message-sql.ts';
import { bitNames, column, finalOf, maybeNode, plain, plains, PROJECT_AND_RUN, ROLLOUT, TRACE, type View } from './view.ts';

export const nodes: View = {
  name: 'nodes',
  about: 'Nodes of trace graphs: messages as the harness saw them and tokens as the engine saw them. Lists of tokens are deltas: concatenated along a path they are the whole context.',
  columns: [
    ...PROJECT_AND_RUN,
    ROLLOUT,
    TRACE,
    plain('index', 'number of the node in its trace, from 0', 'none'),
    plain('parent', 'index of the parent; NULL for a root', 'none'),
    plain('role', 'system, user, assistant, tool, …'),
    plain('sampled', 'whether a model call produced it'),
    plain('text', 'text of the message; parts are joined by line feeds'),
    plain('reasoning', 'reasoning of the message'),
    column('tool_calls', "CAST(arrayZip(t.tool_call_ids, t.tool_call_names, t.tool_call_arguments), 'Array(Tuple(id String, name String, arguments String))')", 'tool calls the message asks for; `arguments` is JSON text'),
    plain('tool_call_id', 'the tool call this message answers'),
    column('message', messageSql('t'), 'the whole message as JSON text, keys in their order'),
    plain('tokens', 'number of token ids; NULL when the node carries no tokens, which is not the same as 0', 'tokens'),
    plain('sampled_tokens', 'number of sampled tokens (mask = 1); NULL when the node carries no tokens', 'tokens'),
    column('streams', bitNames('t._streams', NODE_STREAMS), 'which token streams were given: an absent stream and an empty one both read as []'),
    plain('token_ids', 'token ids', 'none'),
    plain('mask', '1 where the model sampled the token; as long as token_ids', 'none'),
    plain('is_content', '1 where the token is message body, 0 where it is template; as long as token_ids, or [] when absent', 'none'),
    plain('logprobs', 'log-probability of each sampled token under the policy that sampled it; one per mask = 1', 'nats'),
    plain('reference_logprobs', 'the same under a reference model', 'nats'),
    plain('advantages', 'advantages as the producer gave them; one per mask = 1', 'none'),
    column('loss_weights', "CAST((t.loss_weight_names, t.loss_weights), 'Map(String, Array(Float32))')", 'weights per token by kind of loss', 'none'),
    plain('policy_version', 'policy version that sampled it; the last one when the weights changed in mid-turn', 'none'),
    column('policy_runs', "CAST(arrayZip(t.policy_run_lengths, t.policy_run_versions), 'Array(Tuple(length UInt64, version UInt64))')", 'stretches of sampled tokens by policy version, when the weights changed in mid-turn', 'tokens'),
    plain('call', 'index of the model call that produced it', 'none'),
    plain('fork_reason', 'why a new branch begins here'),
    ...plains({ attribution: 'how tokens were assigned to the message: renderer, ladder or none', partial: 'whether the message was cut off' }),
    ...plains({ routed_experts: 'blob handle as JSON text', top_logprobs: 'blob handle as JSON text' }),
    ...plains({ extra: 'what the producer could not map, as JSON text', rest: 'fields without a column, as JSON text' }),
    plain('time', "producer's clock", 'µs'),
  ],
  from: finalOf('node_payloads'),
  example: "SELECT index, parent, role, tokens, substring(text, 1, 80) AS text FROM nodes WHERE trace = 'trace-1' ORDER BY index",
}; // prettier-ignore

export const calls: View = {
  name: 'calls',
  about: 'Exchanges with model servers, failed ones included.',
  columns: [
    ...PROJECT_AND_RUN,
    ROLLOUT,
    TRACE,
    plain('index', 'number of the call in its trace, from 0', 'none'),
    plain('node', 'index of the node it produced; NULL when it produced none', 'none'),
    ...plains({ model: 'model that was asked', endpoint: 'path or URL', dialect: 'protocol of the request' }),
    ...plains({ sampling: 'sampling parameters really used, as JSON text', request_digest: 'digest of the request' }),
    plain('finish_reason', 'why the model stopped'),
    plain('prompt_tokens', 'prompt tokens as reported', 'tokens'),
    plain('completion_tokens', 'completion tokens as reported', 'tokens'),
    plain('cached_tokens', 'prompt tokens served from a cache, as reported', 'tokens'),
    plain('reasoning_tokens', 'reasoning tokens as reported', 'tokens'),
    plain('cost', 'cost as reported', 'USD'),
    ...plains({ started: ['request sent', 'µs'], first_token: ['first token received', 'µs'], ended: ['answer complete', 'µs'] }),
    ...plains({ policy_version: ['policy version at the start', 'none'], policy_version_end: ['policy version at the end', 'none'] }),
    ...plains({ logprobs_mode: 'raw, processed or unknown', tokenizer_hash: 'hash of the tokenizer', template_hash: 'hash of the chat template' }),
    plain('stream', 'whether the answer was streamed'),
    plain('extends', 'whether its prompt starts with the ids of the answer it continues; NULL = no question: first call, same prompt again, no ids'),
    plain('drift', 'fields in which re-sent messages differ from the nodes that hold their ids, as JSON text; [] = none, NULL = not looked at'),
    plain('retry_of', 'index of the call this one retries', 'none'),
    plain('error_type', 'type of the error; NULL when the call succeeded'),
    plain('error_status', 'HTTP status of the error', 'none'),
    plain('error_message', 'text of the error'),
    plain('time', "producer's clock", 'µs'),
  ],
  from: finalOf('calls'),
  example: 'SELECT model, count() AS calls, countIf(error_type IS NOT NULL) AS failed, quantile(0.95)(dateDiff(\'millisecond\', started, ended)) AS p95_ms FROM calls GROUP BY model',
  questions: [
    {
      asks: 'How often a call extends the tokens of the one it continues, per model and harness, and in which fields re-sent messages drift. A low rate means that a chat engine renders the history anew each turn: then every turn is a training row of its own, with the whole context; a token-in client avoids it. Traces that name no harness stand under their agent.',
      sql:
        'SELECT c.model, t.harness, avg(toUInt8(c.extends)) AS extension_rate, countIf(isNotNull(c.extends)) AS later_calls,\n' +
        "       countIf(c.drift != '[]') AS drifted_calls, arraySort(groupUniqArrayArray(JSONExtract(ifNull(c.drift, '[]'), 'Array(String)'))) AS drifted_fields\n" +
        'FROM calls AS c\n' +
        "LEFT JOIN (\n" +
        "  SELECT run, rollout, trace, coalesce(nullIf(JSONExtractString(data, 'runtime', 'harness'), ''), nullIf(JSONExtractString(data, 'agent', 'config', 'harness', 'id'), ''), JSONExtractString(data, 'agent', 'name')) AS harness\n" +
        "  FROM trace_bodies WHERE type = 'trace.started'\n" +
        ") AS t USING (run, rollout, trace)\n" +
        'GROUP BY c.model, t.harness ORDER BY c.model, t.harness',
    },
  ],
}; // prettier-ignore

export const callBodies: View = {
  name: 'call_bodies',
  about: 'The whole record of a call: request, response and everything else the producer sent. Fetch it by trace.',
  columns: [
    ...PROJECT_AND_RUN,
    ROLLOUT,
    TRACE,
    plain('index', 'number of the call in its trace', 'none'),
    plain('data', 'the call as JSON text'),
  ],
  from: finalOf('call_payloads'),
  example: "SELECT index, JSONExtractRaw(data, 'request') AS request FROM call_bodies WHERE trace = 'trace-1' ORDER BY index",
};

export const tools: View = {
  name: 'tools',
  about: 'Runs of tools.',
  columns: [
    ...PROJECT_AND_RUN,
    ROLLOUT,
    TRACE,
    plain('tool_call_id', 'id of the tool call'),
    plain('name', 'name of the tool'),
    maybeNode('node', '_node', 'index of the node that asked for it'),
    plain('result_node', 'index of the node with the result', 'none'),
    ...plains({ started: ['start', 'µs'], ended: ['end', 'µs'] }),
    plain('error', 'text of the error; NULL when it succeeded'),
    ...plains({ error_type: 'type of the error', error_status: ['status of the error', 'none'] }),
    ...plains({ extra: 'what the producer could not map, as JSON text', time: ["producer's clock", 'µs'] }),
  ],
  from: finalOf('tools'),
  example: 'SELECT name, count() AS runs, countIf(error IS NOT NULL) AS failed FROM tools GROUP BY name ORDER BY runs DESC',
};

export const links: View = {
  name: 'links',
  about: 'Semantic edges between nodes or traces: continuation, compaction, sub-agents, messages.',
  columns: [
    ...PROJECT_AND_RUN,
    ROLLOUT,
    plain('from_trace', 'trace the edge starts in'),
    maybeNode('from_node', '_from_node', 'node it starts at; NULL for the whole trace'),
    plain('to_trace', 'trace the edge ends in'),
    maybeNode('to_node', '_to_node', 'node it ends at; NULL for the whole trace'),
    plain('type', 'kind of edge'),
    ...plains({ extra: 'what the producer could not map, as JSON text', time: ["producer's clock", 'µs'] }),
  ],
  from: finalOf('links'),
  example: 'SELECT type, count() AS edges FROM links GROUP BY type',
};

export const search: View = {
  name: 'search',
  about: 'Message text with a word index: `hasToken(text, word)` and `hasAllTokens(text, [words])` use it. It follows the other views by seconds.',
  columns: [...PROJECT_AND_RUN, ROLLOUT, TRACE, plain('index', 'number of the node', 'none'), plain('role', 'role of the message'), plain('text', 'text of the message')],
  from: finalOf('node_search'),
  example: "SELECT trace, index, role FROM search WHERE hasToken(text, 'error') LIMIT 20",
}; // prettier-ignore
