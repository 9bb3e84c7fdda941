/** The algorithms a server knows, by name: the presets, and what the modules of its configuration add. */
import { fail, ok, type Result } from '../../base/result.ts';
import { bindable, type Bindable } from './bind.ts';
import { dapo } from './dapo.ts';
import { drGrpo } from './dr-grpo.ts';
import { echo } from './echo.ts';
import { gdpo } from './gdpo.ts';
import { gpg } from './gpg.ts';
import { grpoPassk } from './grpo-passk.ts';
import { grpo } from './grpo.ts';
import { hierarchicalGrpo } from './hierarchical-grpo.ts';
import { maxRl } from './max-rl.ts';
import { opd } from './opd.ts';
import { opo } from './opo.ts';
import { opsd } from './opsd.ts';
import { rae } from './rae.ts';
import { reinforcePpBaseline } from './reinforce-pp-baseline.ts';
import { reinforcePp } from './reinforce-pp.ts';
import { rejectionFt } from './rejection-ft.ts';
import { rlOpd } from './rl-opd.ts';
import { rloo } from './rloo.ts';
import { sft } from './sft.ts';
import type { TokenFilter } from './token-filter.ts';

export const PRESETS: readonly Bindable[] = [
  bindable(grpo), bindable(drGrpo), bindable(rloo), bindable(reinforcePp), bindable(reinforcePpBaseline), bindable(maxRl), bindable(opo), bindable(gpg),
  bindable(gdpo), bindable(grpoPassk), bindable(rae), bindable(hierarchicalGrpo), bindable(dapo), bindable(opd), bindable(opsd), bindable(sft),
  bindable(rejectionFt), bindable(echo), bindable(rlOpd),
]; // prettier-ignore

export type Registry = { readonly algorithms: ReadonlyMap<string, Bindable>; readonly filters: ReadonlyMap<string, TokenFilter> };

/** The presets alone. */
export const PRESET_REGISTRY: Registry = { algorithms: new Map(PRESETS.map((a) => [a.name, a])), filters: new Map() };

/** `registry` with more in it. A name that is taken is an error: a spec must mean the same on every server. */
export function extendRegistry(
  registry: Registry,
  more: { readonly algorithms?: readonly Bindable[]; readonly filters?: readonly TokenFilter[] },
): Result<Registry> {
  const algorithms = new Map(registry.algorithms);
  for (const algorithm of more.algorithms ?? []) {
    if (algorithms.has(algorithm.name)) return fail('config_invalid', `the algorithm name ${algorithm.name} is taken: choose another`);
    algorithms.set(algorithm.name, algorithm);
  }
  const filters = new Map(registry.filters);
  for (const filter of more.filters ?? []) {
    if (filters.has(filter.name)) return fail('config_invalid', `the filter name ${filter.name} is taken: choose another`);
    filters.set(filter.name, filter);
  }
  return ok({ algorithms, filters });
}
