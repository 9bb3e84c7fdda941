/** Checks the parameters of an algorithm and binds them, so that nothing downstream sees them unchecked. */
import { z } from 'zod';
import type { Problem, Result } from '../../base/result.ts';
import type { Algorithm, BoundAlgorithm } from './algorithm.ts';

/** An algorithm that can be bound: its parameter type is nobody else's business. `schema` is for documentation. */
export type Bindable = {
  readonly name: string;
  readonly version: number;
  readonly schema: z.ZodType;
  readonly bind: (params: unknown) => Result<BoundAlgorithm, readonly Problem[]>;
};

/** Forgets the parameter type of `algorithm`. */
export function bindable<P>(algorithm: Algorithm<P>): Bindable {
  return { name: algorithm.name, version: algorithm.version, schema: algorithm.params, bind: (params) => bind(algorithm, params) };
}

const streams = z.looseObject({
  rl: z.number(),
  ce: z.number(),
  refKl: z.number(),
  observations: z.looseObject({ roles: z.record(z.string(), z.number()), filter: z.string().nullable() }).optional(),
});

/** A module that throws where it is bound makes a fault of the specification, like one that gives no weights: a server serves its other feeds. */
function bind<P>(algorithm: Algorithm<P>, input: unknown): Result<BoundAlgorithm, readonly Problem[]> {
  try {
    const bound = bindParams(algorithm, input);
    if (!bound.ok || streams.safeParse(bound.value.streams).success) return bound;
    return fault(`${algorithm.name}: streams must give a weight for each of rl, ce and refKl`);
  } catch (error) {
    return fault(`${algorithm.name} threw: ${String(error)}`);
  }
}

function fault(message: string): Result<never, readonly Problem[]> {
  return { ok: false, error: [{ code: 'invalid_value', message }] };
}

function bindParams<P>(algorithm: Algorithm<P>, input: unknown): Result<BoundAlgorithm, readonly Problem[]> {
  const parsed = algorithm.params.safeParse(input);
  if (!parsed.success) {
    return {
      ok: false,
      error: parsed.error.issues.map((issue) => {
        const field = ['params', ...issue.path].join('.');
        return { code: 'invalid_value', message: `${algorithm.name}: ${field}: ${issue.message}`, field };
      }),
    };
  }
  const params = parsed.data;
  const scope = typeof algorithm.scope === 'function' ? algorithm.scope(params) : algorithm.scope;
  const { shape, finish } = algorithm;
  if (scope === 'batch' && finish === undefined) {
    return fault(`${algorithm.name} has scope batch but no function finish`);
  }
  return {
    ok: true,
    value: {
      name: algorithm.name,
      version: algorithm.version,
      params: params as Readonly<Record<string, unknown>>,
      streams: algorithm.streams(params),
      needsReward: algorithm.needsReward ?? true,
      rewardNames: algorithm.rewardNames?.(params) ?? null,
      reduction: algorithm.reduction?.(params) ?? null,
      groupFilter: algorithm.groupFilter?.(params) ?? null,
      baseline: algorithm.baseline?.(params) ?? null,
      silentAlone: algorithm.silentAlone?.(params) ?? false,
      sources: algorithm.sources ?? ['policy', 'frozen'],
      needsReference: algorithm.needsReference ?? false,
      needsDemonstration: algorithm.needsDemonstration ?? false,
      tokenizerHash: algorithm.tokenizerHash?.(params) ?? null,
      shape: shape === undefined ? null : (group) => shape(group, params),
      score: (group) => algorithm.score(group, params),
      finish: scope === 'batch' && finish !== undefined ? (members) => finish(members, params) : null,
    },
  };
}
