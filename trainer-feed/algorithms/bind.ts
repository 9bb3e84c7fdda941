/** Checks the parameters of an algorithm and binds them, so that nothing downstream sees them unchecked. */
import type { z } from 'zod';
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

function bind<P>(algorithm: Algorithm<P>, input: unknown): Result<BoundAlgorithm, readonly Problem[]> {
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
    return { ok: false, error: [{ code: 'invalid_value', message: `${algorithm.name} has scope batch but no function finish` }] };
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
