/** Where the token streams of events lie, by path: there JSON says a stream as an array of numbers or as plain base64. */
import type { Dtype } from '../packed-array.ts';

/** A place in an event: its path, its known children by key, one for every other key, and the element type when a stream belongs here. */
export type Place = {
  readonly path: string;
  readonly keys: ReadonlyMap<string, Place>;
  readonly any: Place | null;
  readonly dtype: Dtype | null;
};

type Tree = Dtype | { readonly [key: string]: Tree };

const ANY_KEY = '*';
const TREE: Tree = {
  data: {
    tokens: {
      ids: 'u32',
      mask: 'u8',
      isContent: 'u8',
      logprobs: 'f32',
      referenceLogprobs: 'f32',
      advantages: 'f32',
      lossWeights: { [ANY_KEY]: 'f32' },
    },
    logprobs: 'f32',
    told: { pieces: 'u8' },
    streams: { trainerLogprobs: 'f32', entropies: 'f32', isMasked: 'u8' },
  },
};

function placeOf(tree: Tree, path: string): Place {
  if (typeof tree === 'string') return { path, keys: new Map(), any: null, dtype: tree };
  const children = Object.entries(tree).map(([key, child]) => [key, placeOf(child, path === '' ? key : `${path}.${key}`)] as const);
  return { path, keys: new Map(children.filter(([key]) => key !== ANY_KEY)), any: new Map(children).get(ANY_KEY) ?? null, dtype: null };
}

export const EVENT_PLACE: Place = placeOf(TREE, '');

/** Objects with this one key stand for what JSON lacks; a real object of that form gets one more `$`. */
export const ESCAPE_KEY = /^\$+(?:float|bytes|array)$/;

/** True when `place` says something about the keys of an object. */
export function hasKeys(place: Place | null): place is Place {
  return place !== null && (place.any !== null || place.keys.size > 0);
}

export function childPlace(place: Place, key: string | null): Place | null {
  return (key === null ? undefined : place.keys.get(key)) ?? place.any;
}
