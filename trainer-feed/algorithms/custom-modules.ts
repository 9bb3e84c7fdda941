/**
 * Algorithms and token filters of one's own: modules listed in the server's configuration (never a path from a request). A module's default export is an object
 * `{algorithms?, filters?}` or a function that gets the toolkit (zod and the arithmetic of the presets) and returns one, so that it need not import anything.
 */
import { pathToFileURL } from 'node:url';
import { z } from 'zod';
import { TapedeckError } from '../../base/errors.ts';
import { allEqual, centred, deviation, mean, sum } from './arithmetic.ts';
import { type Algorithm, RL_STREAMS } from './algorithm.ts';
import { bindable, type Bindable } from './bind.ts';
import { extendRegistry, type Registry } from './registry.ts';
import type { TokenFilter } from './token-filter.ts';

/** What a module's function is given. */
export type Toolkit = {
  readonly z: typeof z;
  readonly allEqual: typeof allEqual;
  readonly sum: typeof sum;
  readonly mean: typeof mean;
  readonly deviation: typeof deviation;
  readonly centred: typeof centred;
  readonly RL_STREAMS: typeof RL_STREAMS;
};
const TOOLKIT: Toolkit = { z, allEqual, sum, mean, deviation, centred, RL_STREAMS };

const isFunction = z.custom<(...args: never) => unknown>((v) => typeof v === 'function', { message: 'must be a function' });
const isSchema = z.custom((v) => typeof v === 'object' && v !== null && 'safeParse' in v, { message: 'must be a zod schema' });
const name = z.string().regex(/^[a-z][a-z0-9_]{0,63}$/, 'must be lower-case letters, digits and _, at most 64');
const moduleShape = z.strictObject({
  algorithms: z
    .array(
      z.looseObject({
        name,
        version: z.int().positive(),
        scope: z.union([z.enum(['group', 'batch']), isFunction]),
        params: isSchema,
        streams: isFunction,
        score: isFunction,
        shape: isFunction.optional(),
        finish: isFunction.optional(),
      }),
    )
    .default([]),
  filters: z.array(z.strictObject({ name, keep: isFunction })).default([]),
});

/** The presets plus what the modules at `paths` define. Throws `config_invalid`, which names the module and what is wrong with it. */
export async function loadRegistry(base: Registry, paths: readonly string[]): Promise<Registry> {
  let registry = base;
  for (const path of paths) registry = withModule(registry, path, await importDefault(path));
  return registry;
}

async function importDefault(path: string): Promise<unknown> {
  try {
    const loaded = (await import(pathToFileURL(path).href)) as { readonly default?: unknown };
    return typeof loaded.default === 'function' ? (loaded.default as (toolkit: Toolkit) => unknown)(TOOLKIT) : loaded.default;
  } catch (error) {
    throw new TapedeckError('config_invalid', `the algorithm module ${path} cannot be loaded: ${String(error)}`, { cause: error });
  }
}

function withModule(registry: Registry, path: string, content: unknown): Registry {
  const parsed = moduleShape.safeParse(content);
  if (!parsed.success) {
    const wrong = parsed.error.issues.map((issue) => `${issue.path.join('.') || 'default export'}: ${issue.message}`).join('; ');
    throw new TapedeckError('config_invalid', `the algorithm module ${path} is not one: ${wrong}`);
  }
  const extended = extendRegistry(registry, {
    algorithms: parsed.data.algorithms.map((a): Bindable => bindable(a as unknown as Algorithm<unknown>)),
    filters: parsed.data.filters as unknown as TokenFilter[],
  });
  if (!extended.ok) throw new TapedeckError('config_invalid', `the algorithm module ${path}: ${extended.error.message}`);
  return extended.value;
}
