/** One generation, whatever the dialect: prompt ids from messages (or as given), a reply from the behaviour, completions from the reply. */
import { seededRandom } from '../../base/random.ts';
import type { Call } from './answer.ts';
import { parsePrompt, renderPrompt, type ChatMessage, type Tool } from './chat-template.ts';
import { completionOf, mix, type Completion } from './completion.ts';
import type { Engine, ModelSettings } from './engine-state.ts';
import { faultOf, type Fault } from './faults.ts';
import { plainJson, pythonJson, type WriteJson } from './json.ts';
import type { BehaviourAsk, Reply } from './behaviour.ts';

export type GenerationAsk = {
  readonly model: string;
  /** Either messages or ids. */
  readonly messages: readonly ChatMessage[] | null;
  readonly promptIds: readonly number[] | null;
  readonly tools: readonly Tool[];
  readonly toolChoice: BehaviourAsk['toolChoice'];
  readonly parallelToolCalls: boolean;
  readonly n: number;
  readonly maxTokens: number | null;
  readonly stop: readonly string[];
  readonly stopTokenIds: readonly number[];
  readonly temperature: number;
  readonly seed: number | null;
  readonly topLogprobs: number;
  /** Null: as the model does. */
  readonly thinks: boolean | null;
};

export type Refusal = { readonly status: number; readonly message: string; readonly param?: string };
export type Generation = { readonly model: ModelSettings; readonly promptIds: Uint32Array; readonly completions: readonly Completion[] };

/** What a client is shown, which faults may bend away from the truth in `Generation`. */
export type Shown = {
  readonly promptIds: readonly number[] | null;
  readonly choices: readonly { readonly ids: readonly number[] | null; readonly logprobs: readonly (number | null)[] | null }[];
  readonly usage: { readonly promptTokens: number; readonly completionTokens: number };
  readonly write: WriteJson;
};

export function findModel(engine: Engine, name: string): ModelSettings | Refusal {
  return engine.models.find((m) => m.id === name) ?? { status: 404, message: `The model \`${name}\` does not exist.`, param: 'model' };
}

/** Samples the answer and writes it into the log entry of the call. */
export function generate(call: Call, ask: GenerationAsk): Generation | Refusal {
  const { engine, faults } = call;
  const model = findModel(engine, ask.model);
  if ('status' in model) return model;
  const bad = ask.promptIds?.find((id) => !isKnown(engine, id));
  if (bad !== undefined) return { status: 400, message: `Token id ${bad} is out of vocabulary`, param: 'token_ids' };
  const promptIds = Uint32Array.from(ask.promptIds ?? renderAsk(engine, model, ask, faults));
  call.seen.promptIds = promptIds;
  const room = model.maxModelLen - promptIds.length;
  if (room < 1 || (ask.maxTokens !== null && ask.maxTokens > room)) {
    const message = `This model's maximum context length is ${model.maxModelLen} tokens. However, your request has ${promptIds.length} input tokens and asks for ${ask.maxTokens ?? 1}. Please reduce the length of the input messages.`;
    return { status: 400, message, param: 'input_tokens' };
  }
  const { messages, tools } =
    ask.messages === null ? parsePrompt(engine.tokenizer, promptIds) : { messages: ask.messages, tools: ask.tools };
  const prompt = hashIds(promptIds);
  const sample = ask.seed !== null || ask.temperature === 0 ? 0 : engine.nextSample(prompt);
  const update = faultOf(faults, 'policy_update');
  const before = engine.policyVersion;
  if (update !== undefined) engine.policyVersion = update.version;
  const completions = Array.from({ length: ask.n }, (_, choice) => {
    const state = [engine.seed, ask.seed ?? 0, prompt, choice, sample].reduce(mix);
    const reply: Reply =
      faultOf(faults, 'empty_answer') === undefined
        ? engine.behaviour({
            model: model.id,
            messages,
            tools,
            toolChoice: ask.toolChoice,
            parallelToolCalls: ask.parallelToolCalls,
            thinks: ask.thinks ?? model.thinks,
            choice,
            sample,
            temperature: ask.temperature,
            policyVersion: before,
            random: seededRandom(state),
          })
        : {};
    const limits = { maxTokens: ask.maxTokens ?? room, stop: ask.stop, stopTokenIds: ask.stopTokenIds, topLogprobs: ask.topLogprobs };
    return completionOf(engine.tokenizer, reply, choice, state, limits, (place) =>
      update !== undefined && place >= update.afterTokens ? update.version : before,
    );
  });
  call.seen.choices = completions;
  return { model, promptIds, completions };
}

export function renderAsk(
  engine: Engine,
  model: ModelSettings,
  ask: Pick<GenerationAsk, 'messages' | 'tools'>,
  faults: readonly Fault[],
): number[] {
  return renderPrompt(engine.tokenizer, ask.messages ?? [], ask.tools, {
    earlierReasoning: model.earlierReasoning,
    addGenerationPrompt: true,
    retokeniseAnswers: faultOf(faults, 'retokenise') !== undefined,
    idsPerImage: 4,
  });
}

export function shownOf(call: Call, { promptIds, completions }: Generation): Shown {
  const { faults } = call;
  const usage = faultOf(faults, 'wrong_usage');
  const bentIds = faultOf(faults, 'token_ids');
  const bentLogprobs = faultOf(faults, 'logprobs');
  const choices = completions.map((completion) => {
    const ids = Array.from(completion.ids);
    let logprobs: (number | null)[] | null = Array.from(completion.logprobs);
    if (bentLogprobs?.how === 'missing') logprobs = null;
    else if (bentLogprobs?.how === 'short') logprobs.pop();
    else if (bentLogprobs !== undefined)
      logprobs[Math.min(bentLogprobs.at, logprobs.length - 1)] = { nan: NaN, null: null, sentinel: -9999 }[bentLogprobs.how];
    if (bentIds?.which !== 'completion') return { ids, logprobs };
    return { ids: bentIds.how === 'missing' ? null : ids.slice(0, -1), logprobs };
  });
  const prompt = Array.from(promptIds);
  return {
    promptIds: bentIds?.which === 'prompt' ? (bentIds.how === 'missing' ? null : prompt.slice(0, -1)) : prompt,
    choices,
    write: bentLogprobs?.how === 'nan' ? pythonJson : plainJson,
    usage: {
      promptTokens: usage?.promptTokens ?? promptIds.length,
      completionTokens: usage?.completionTokens ?? completions.reduce((sum, c) => sum + c.ids.length, 0),
    },
  };
}

function isKnown(engine: Engine, id: number): boolean {
  try {
    engine.tokenizer.bytesOf(id);
    return true;
  } catch {
    return false;
  }
}

export function hashIds(ids: Iterable<number>): number {
  let hash = 1;
  for (const id of ids) hash = mix(hash, id);
  return hash;
}
