/** The `call.recorded` of a call. Pure. */
import type { DataOf } from '../../../events/registry.ts';
import { compact, isObject } from '../dialects/json.ts';
import type { Json } from '../dialects/dialect.ts';
import type { ExchangePlan } from '../graph/exchange.ts';
import type { Encoded } from '../record/draft.ts';
import type { UpstreamSettings } from '../upstreams/settings.ts';
import type { Call, Sent } from './call.ts';
import { urlAt } from './endpoints.ts';
import { countedTokens, type Outcome } from './outcome.ts';

/** Fields that are CBOR already stand beside the rest, for the encoder to splice in. */
export type CallData = {
  readonly data: DataOf<'call.recorded'>;
  readonly spliced: { readonly request: Encoded; readonly response?: Encoded | undefined };
};

export type CallFacts = {
  readonly call: Call;
  readonly sent: Sent | null;
  readonly outcome: Outcome;
  readonly plan: ExchangePlan;
  /** The newest published version at the end. */
  readonly published: number | null;
  /** The name of a limit that refused the call, as a stop condition. */
  readonly limit?: string;
  /** The id by which a later request may name this answer. */
  readonly responseId: string | null;
};

export function callData(facts: CallFacts): CallData {
  const { call, sent, outcome, plan } = facts;
  const { inbound, index } = call;
  const settings = sent?.upstream.settings;
  const usage = usageOf(outcome, settings);
  const versions = outcome.versions;
  const [start, end] = [versions?.start ?? null, versions?.end ?? null];
  const answers = plan.answers;
  const first = outcome.answer?.choices[0];
  const kwargs = inbound.body['chat_template_kwargs'];
  const response = outcome.response;
  const isSpliced = response !== undefined && isEncoded(response);
  const data: DataOf<'call.recorded'> = {
    index,
    ...(answers[0] !== undefined && { node: answers[0].node }),
    model: nonEmpty(outcome.answer?.model) ?? sent?.model ?? nonEmpty(inbound.ask.model),
    ...(sent !== null && { endpoint: urlAt(sent.upstream.settings, sent.outbound.dialect.name) }),
    dialect: inbound.dialect.name,
    sampling: { ...(sent?.outbound.ask.sampling ?? inbound.ask.sampling) },
    requestDigest: inbound.digest,
    ...(response !== undefined && !isSpliced && { response }),
    told: outcome.told,
    ...(first?.finishReason != null && { finishReason: first.finishReason }),
    ...(usage.usage !== null && { usage: usage.usage }),
    time: { start: call.start, end: outcome.end },
    ...(outcome.firstToken !== null && { firstToken: outcome.firstToken }),
    ...(start !== null && { policyVersion: start }),
    ...(end !== null && end !== start && { policyVersionEnd: end }),
    ...(settings !== undefined && hasLogprobs(outcome) && { logprobsMode: settings.logprobsMode }),
    ...(settings?.tokenizerHash !== undefined && { tokenizerHash: settings.tokenizerHash }),
    ...(settings?.templateHash !== undefined && { templateHash: settings.templateHash }),
    ...(isObject(kwargs) && { templateKwargs: { ...kwargs } }),
    stream: inbound.ask.stream,
    ...(plan.extends !== null && { extends: plan.extends }),
    ...(plan.answers.length > 0 && { drift: [...plan.drift] }), // none found is [], not looked at is nothing
    ...(call.retryOf !== null && { retryOf: call.retryOf }),
    ...(outcome.error !== null && { error: outcome.error }),
    extra: extraOf(facts, [...outcome.flags, ...usage.flags]),
  };
  return { data, spliced: { request: inbound.recorded, response: isSpliced ? response : undefined } };
}

function isEncoded(value: Encoded | Json): value is Encoded {
  return typeof value === 'object' && value !== null && 'bytes' in value && value.bytes instanceof Uint8Array;
}

function hasLogprobs({ tokens }: Outcome): boolean {
  return [...(tokens?.choices.values() ?? [])].some((choice) => choice.hasLogprobs);
}

function extraOf({ call, sent, outcome, plan, limit, responseId }: CallFacts, flags: readonly string[]): Record<string, unknown> {
  const { answer } = outcome;
  const attempts = sent?.attempts ?? [];
  return compact({
    client: call.client ?? undefined,
    upstream: sent?.upstream.settings.name,
    engineDialect: sent?.outbound.isTranslated === true ? sent.outbound.dialect.name : undefined,
    sent: sent === null ? undefined : sent.outbound.sent,
    status: outcome.status ?? undefined,
    upstreamId: nonEmpty(answer?.id),
    nativeFinish: answer?.choices[0]?.nativeFinish ?? undefined,
    nodes: plan.answers.length > 1 ? plan.answers.map(({ node }) => node) : undefined,
    forkReason: plan.forkReason ?? undefined,
    driftNodes: plan.driftNodes.length > 0 ? plan.driftNodes : undefined,
    chunks: outcome.chunks ?? undefined,
    attempts: attempts.length > 0 ? attempts : undefined,
    flags: flags.length > 0 ? flags : undefined,
    limit,
    responseId: responseId ?? undefined,
    instructions: responseId !== null && call.instructions > 0 ? call.instructions : undefined,
  });
}

/** What the engine said; where it said nothing, the ids it gave are counted. */
function usageOf(
  { answer, tokens, error }: Outcome,
  settings: UpstreamSettings | undefined,
): { usage: DataOf<'call.recorded'>['usage'] | null; flags: string[] } {
  const said = answer?.usage ?? null;
  const counted = countedTokens(tokens);
  const flags: string[] = [];
  if (said !== null && error === null) {
    const differs = (a: number | null, b: number | null): boolean => a !== null && b !== null && a !== b;
    if (differs(said.promptTokens, counted.prompt) || differs(said.completionTokens, counted.completion)) flags.push('usage_mismatch');
  }
  const promptTokens = said?.promptTokens ?? counted.prompt;
  const completionTokens = said?.completionTokens ?? counted.completion;
  if (promptTokens === null && completionTokens === null) return { usage: null, flags };
  if (said === null) flags.push('usage_counted');
  const cachedTokens = said?.cachedTokens ?? null;
  const cost = said?.cost ?? costOf(settings, promptTokens, completionTokens, cachedTokens);
  const usage = {
    ...(promptTokens !== null && { promptTokens }),
    ...(completionTokens !== null && { completionTokens }),
    ...(cachedTokens !== null && { cachedTokens }),
    ...(said !== null && said.reasoningTokens !== null && { reasoningTokens: said.reasoningTokens }),
    ...(cost !== null && { cost }),
  };
  return { usage, flags };
}

function costOf(
  settings: UpstreamSettings | undefined,
  prompt: number | null,
  completion: number | null,
  cached: number | null,
): number | null {
  if (settings?.price === undefined) return null;
  const { input, output, cached: forCached = input } = settings.price;
  const fromCache = Math.min(cached ?? 0, prompt ?? 0);
  return (((prompt ?? 0) - fromCache) * input + fromCache * forCached + (completion ?? 0) * output) / 1e6;
}

function nonEmpty(text: string | undefined): string | undefined {
  return text === undefined || text === '' ? undefined : text;
}
