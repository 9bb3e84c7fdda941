/** Asks a judge which of two answers is better. A template is filled in one pass, so nothing that an answer holds is taken for a place in it. */
import { isMap } from '../../events/fields.ts';
import type { GroupRewardSpec } from '../algorithms/group-rewards/group-reward-spec.ts';
import type { Judgement, Verdict } from '../algorithms/group-rewards/group-reward.ts';
import { pairwiseQuestions } from '../algorithms/group-rewards/group-reward.ts';
import { failed, type Scored, type ScoringUpstreams } from './upstream.ts';

export type JudgeSpec = Extract<GroupRewardSpec, { kind: 'pairwise' | 'ranking' }>;

const MAX_ANSWER_BYTES = 4 * 1024 * 1024;

/** The judge's answers to all pairs in both orders; a question whose answer is no verdict is left out. Fails when none is. */
export async function judgePairs(
  spec: JudgeSpec,
  prompt: string,
  answers: readonly string[],
  upstreams: ScoringUpstreams,
  signal: AbortSignal,
): Promise<Scored<readonly Judgement[]>> {
  const upstream = upstreams.find(spec.upstream);
  if (!upstream.ok) return upstream;
  if (upstream.value.kind === 'anthropic') {
    return failed(
      'judge_upstream_kind',
      `upstream ${spec.upstream} speaks no chat completions: a judge must be reached through an API of OpenAI's shape`,
    );
  }
  const model = await upstreams.modelOf(upstream.value, spec.model, signal);
  if (!model.ok) return model;
  const questions = pairwiseQuestions(answers.length);
  const judged = await Promise.all(
    questions.map(async ({ first, second }): Promise<Scored<Judgement | null>> => {
      const content = fill(spec.template, { prompt, first: answers[first] as string, second: answers[second] as string });
      const body = JSON.stringify({
        model: model.value,
        messages: [{ role: 'user', content }],
        temperature: 0,
        max_tokens: spec.maxTokens,
      });
      const answer = await upstreams.ask(upstream.value, 'api', '/chat/completions', body, { maxBytes: MAX_ANSWER_BYTES, signal });
      if (!answer.ok) return answer;
      const verdict = verdictIn(textOf(answer.value.body));
      return { ok: true, value: verdict === null ? null : { first, second, verdict } };
    }),
  );
  const refused = judged.find((each) => !each.ok);
  if (refused !== undefined && !refused.ok) return refused;
  const judgements = judged.flatMap((each) => (each.ok && each.value !== null ? [each.value] : []));
  if (questions.length > 0 && judgements.length === 0) {
    return failed('judge_unclear', `upstream ${spec.upstream} ended none of ${questions.length} answers with A, B or tie`);
  }
  return { ok: true, value: judgements };
}

/** Puts values into `{prompt}`, `{first}` and `{second}`, all at once. */
export function fill(template: string, values: { readonly prompt: string; readonly first: string; readonly second: string }): string {
  return template.replaceAll(/\{(prompt|first|second)\}/g, (_, name: 'prompt' | 'first' | 'second') => values[name]);
}

/** The verdict on the last line that is not empty: A, B or tie, whatever marks stand around it. */
export function verdictIn(text: string): Verdict | null {
  const last = text.trimEnd().split('\n').at(-1) ?? '';
  const word = /^[\s*_`"'([#>-]*(A|B|tie)[\s*_`"')\].!]*$/i.exec(last)?.[1]?.toLowerCase();
  return word === 'a' ? 'first' : word === 'b' ? 'second' : word === 'tie' ? 'tie' : null;
}

function textOf(body: Readonly<Record<string, unknown>>): string {
  const choice: unknown = Array.isArray(body['choices']) ? body['choices'][0] : null;
  const message = isMap(choice) ? choice['message'] : null;
  return isMap(message) && typeof message['content'] === 'string' ? message['content'] : '';
}
