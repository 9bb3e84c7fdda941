/** Small records of every shape that the importers read, for tests: made here, in the shapes of the collected files. */
import type { Json } from './json-value.ts';
import { jsonReader } from './read-json.ts';

/** Exact values from JSON text. */
export function parsed(text: string): Json {
  const read = jsonReader()(Buffer.from(text));
  if (!read.ok) throw new Error(read.error.message);
  return read.value;
}

const TASK =
  '{"type":"sum","data":{"idx":0,"prompt":"What is 1 + 1?","answer":"2","timeout":{},"network_allow":["*"]},"key":"sum/0","hash":"ab12"}';
const AGENT = '{"config":{"model":"toy","timeout":{},"harness":{"id":"null","tool_timeout":600.0}},"name":"agent","trainable":true}';
const TIMING =
  '{"start":1762214400.5,"boot":{"start":0.0,"end":0.0},"setup":{"start":0.0,"end":0.0},"agent":{"start":1762214401.0,"end":1762214409.25,"model":{"duration":3.5},"harness":{"duration":0.25}},"finalize":{"start":0.0,"end":0.0},"scoring":{"start":1762214409.5,"end":1762214410.0}}';
const TAIL =
  '"request_rewrites":[],"response_rewrites":[],"rewards":{"correct":{"score":1.0,"weight":0.5},"style":{"score":null,"weight":1.0},"unscored":null},"metrics":{"turns":2.0,"nan":null},"info":{"seed":7,"p":0.1},"extra_usage":[{"prompt_tokens":3,"completion_tokens":4}],"is_completed":true,"ok":true,"stop_condition":"agent_completed","errors":[]';

function node(rest: string, parent: number | null): string {
  return `{${parent === null ? '' : `"parent":${parent},`}${rest}}`;
}

/** As verifiers 0.2 writes a training episode: tokens, tool call and result, a fork, float32 logprobs printed as doubles. */
export const TRAIN_EPISODE = `{"id":"e1","env":{"id":"wiki","name":"wiki"},"task":${TASK},"group":{"id":"g1"},"run":{"type":"train","id":"r1","name":"demo","work":{"type":"train","step":3,"policy":{"start":2,"end":2}}},"ok":true,"errors":[],"traces":[{"version":1,"id":"t1","verifiers":{"version":"0.2.0","commit":"a60a606"},"task":${TASK},"agent":${AGENT},"tools":[{"name":"search","description":"","parameters":{"type":"object","properties":{"q":null}}}],"nodes":[${[
  node(
    '"message":{"role":"user","content":"What is 1 + 1?"},"sampled":false,"timestamp":1762214401.6055918,"token_ids":[1,2,3],"mask":[false,false,false],"is_content":[false,true,false],"logprobs":[]',
    null,
  ),
  node(
    '"message":{"role":"assistant","content":"","tool_calls":[{"id":"c1","name":"search","arguments":"{\\"q\\": 1"}]},"sampled":true,"timestamp":1762214402.0,"token_ids":[9,50,151645],"mask":[false,true,true],"is_content":[false,true,false],"logprobs":[-0.286871999502182,-1.1920928244535389e-07],"advantages":[0.5,-0.5]',
    0,
  ),
  node(
    '"message":{"role":"tool","tool_call_id":"c1","name":"search","content":"two"},"sampled":false,"timestamp":1762214403.0,"token_ids":[7],"mask":[false],"is_content":[],"logprobs":[]',
    1,
  ),
  node(
    '"message":{"role":"assistant","content":"2","reasoning_content":"easy"},"sampled":true,"timestamp":1762214404.0,"token_ids":[8,9],"mask":[true,true],"is_content":[true,true],"logprobs":[-0.25,-0.5],"reference_logprobs":[-0.5,-0.125],"loss_weights":{"rl":[1.0,0.0],"ce":[0.0,0.25]}',
    2,
  ),
  node(
    '"message":{"role":"assistant","content":"3"},"sampled":true,"timestamp":1762214405.0,"token_ids":[8],"mask":[true],"is_content":[true],"logprobs":[-0.12345678901234]',
    2,
  ),
].join(
  ',',
)}],"calls":[{"node":1,"model":"toy","endpoint":"/v1/chat/completions","sampling":{"temperature":1.0},"finish_reason":"tool_calls","usage":{"prompt_tokens":4,"completion_tokens":2,"cached_input_tokens":1},"time":{"start":1762214401.5,"end":1762214402.0}},{"model":"toy","sampling":{},"time":{"start":0.0,"end":0.0},"error":{"type":"ProviderError","message":"busy","status_code":503}},{"node":3,"model":"toy","finish_reason":"stop","usage":{"prompt_tokens":9,"completion_tokens":2,"cost":0.001},"time":{"start":1762214403.5,"end":1762214404.0},"policy":{"code":"x","paths":["a"]}}],${TAIL},"timing":${TIMING}}]}`;

/** As verifiers 0.4.0 writes it: counters on episode and trace, semantic parents, tools on the root, no group. */
export const EPISODE_040 = `{"id":"e2","env":{"id":"toy-sum"},"task":${TASK},"run":{"type":"eval","id":"r2","name":"toy--run"},"ok":true,"is_timeout":false,"errors":[],"traces":[{"version":1,"id":"t2","verifiers":{"version":"0.4.0"},"task":${TASK},"agent":{"config":{"model":"toy","sampling":{"temperature":null}},"runtime":{"type":"subprocess","borrowed":false},"name":"agent","trainable":true},"tools":[],"nodes":[{"tools":[],"semantic_parents":[],"message":{"role":"user","content":"x"},"sampled":false,"timestamp":1762214401.25,"token_ids":[],"mask":[],"is_content":[],"logprobs":[]},{"parent":0,"semantic_parents":[{"node":0,"type":"continuation"},{"node":0,"type":"unheard_of"}],"message":{"role":"assistant","content":"y"},"sampled":true,"timestamp":1762214402.5,"token_ids":[5,6],"mask":[true,true],"is_content":[true,true],"logprobs":[]}],"calls":[],"mm_token_type_id_map":{},${TAIL},"is_timeout":false,"timing":${TIMING},"num_input_tokens":3,"num_output_tokens":2,"num_total_tokens":5}],"num_input_tokens":3,"num_output_tokens":2,"num_total_tokens":5}`;

/** No run, no group, no timing; a node without token fields; two traces, one with another task; errors on both levels. */
export const BARE_EPISODE = `{"id":"e3","env":{"id":"bare"},"task":${TASK},"ok":false,"errors":[{"type":"EnvError","message":"boom","traceback":"line 1"}],"traces":[{"version":1,"id":"t3","verifiers":{"version":"0.2.0"},"task":${TASK},"agent":{"config":{},"name":"policy","trainable":true},"tools":[],"nodes":[{"message":{"role":"user","content":"a\\u0000b\\u2028\\ud83d\\ude80"},"sampled":false,"timestamp":0.0},{"message":{"role":"user","content":"\\ud800 alone"},"sampled":false,"timestamp":12.0}],"calls":[],"rewards":{},"metrics":{"big":123456789012345678901234567890,"whole":1},"is_completed":false,"ok":false,"stop_condition":"error","errors":[{"type":"ProviderError","message":"","status_code":429,"more":1}]},{"version":1,"id":"t4","verifiers":{"version":"0.2.0"},"task":{"type":"judge","data":{}},"agent":{"config":{"model":"judge"},"name":"judge","trainable":false},"tools":[],"nodes":[],"calls":[],"rewards":{},"metrics":{},"is_completed":true,"ok":true,"errors":[]}]}`;

export const EPISODES: readonly (readonly [string, string])[] = [
  ['training episode with tokens', TRAIN_EPISODE],
  ['episode of verifiers 0.4.0', EPISODE_040],
  ['episode without run, times and tokens', BARE_EPISODE],
];

const PROMPT = '[{"role":"system","content":"Be brief."},{"role":"user","content":"What is 1 + 1?"}]';

/** Rows of verifiers v0, oldest generation first. */
export const ROWS: Readonly<Record<string, string>> = {
  'g0 without id': `{"prompt":${PROMPT},"completion":[{"role":"assistant","content":"2"}],"answer":"2","reward":1.0,"task":"sum"}`,
  'g1 tool calls as objects': `{"id":3,"prompt":${PROMPT},"completion":[{"role":"assistant","content":"","tool_calls":[{"function":{"arguments":"{\\"x\\":1}","name":"add"},"id":"c1","type":"function"}],"tool_call_id":null},{"role":"tool","content":"2","tool_call_id":"c1","tool_calls":null}],"task":"sum","info":{"oai_tools":[{"type":"function","function":{"name":"add","parameters":{}}}]},"answer":"2","reward":0.5,"num_turns":2.0}`,
  'g2 tool calls as strings': `{"id":3,"prompt":${PROMPT},"completion":[{"role":"assistant","content":"","tool_calls":["{\\"id\\":\\"c1\\",\\"function\\":{\\"arguments\\":\\"{}\\",\\"name\\":\\"add\\"},\\"type\\":\\"function\\"}","broken {"]}],"task":"sum","answer":"2","reward":0.0,"total_tool_calls":1.0}`,
  'g2 completion as text':
    '{"id":4,"prompt":"Once upon","completion":" a time [1]","task":"story","answer":"","reward":0.25,"grade_reward":0.25}',
  'g3 flat times': `{"id":5,"prompt":${PROMPT},"completion":[{"role":"assistant","content":"2"}],"task":"sum","generation_ms":12.5,"scoring_ms":0.0,"total_ms":13.0,"answer":"2","reward":1.0}`,
  'g5 error as text': `{"example_id":6,"prompt":${PROMPT},"completion":[],"task":"sum","reward":0.0,"error":"SandboxError(TimeoutError('x'))","generation_ms":1.0,"scoring_ms":0.0,"total_ms":1.0,"answer":"2","sub_llm_call_count":0.0}`,
  'g6 timing object and metrics': `{"example_id":7,"prompt":${PROMPT},"completion":[{"role":"assistant","content":"2"}],"reward":1.0,"timing":{"start_time":1762214400.5,"setup":{"start":1762214400.5,"end":1762214401.0,"duration":0.5},"generation":{"start":1762214401.0,"end":1762214402.0,"duration":1.0},"scoring":{"start":0.0,"end":0.0,"duration":0.0},"total":1.5},"is_completed":true,"is_truncated":false,"metrics":{"acc":1.0,"none":null},"acc":1.0,"error":{"error":"ModelError","message":"bad","error_chain_str":"a -> b"},"stop_condition":"max_turns","tool_defs":[{"name":"add","parameters":{}}],"token_usage":{"input_tokens":10.0,"output_tokens":2.0}}`,
  'hosted training row': JSON.stringify({
    advantage: -0.375, answer: 'Malicious', created_at: '2026-05-15T14:26:16.821430+00:00', env_name: 'org/env', info: '', reward: 1.78, run_id: 'hosted1', sample_id: 2, problem_id: 4, step: 40, tag: '', task: 'default',
    num_input_tokens: 0, num_output_tokens: 0, metrics: '{"accuracy": 1.0}', timing: '{"start_time": 1778855146.5, "generation": {"start": 1778855146.5, "end": 1778855147.0}}', prompt: PROMPT,
    completion: JSON.stringify([{ role: 'assistant', content: null, tool_calls: [JSON.stringify({ id: 'c9', name: 'scan', arguments: '{"a":1}' })] }, { role: 'tool', tool_call_id: 'c9', content: 'ok' }]),
  }), // prettier-ignore
};
