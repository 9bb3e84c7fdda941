/** Answers as JSON text: floats that JSON lacks are objects, `{"$float": "NaN"}`, as everywhere in the API. */
import { floatText } from '../traces/json-float.ts';

export function answerJson(answer: unknown): string {
  return JSON.stringify(answer, (_key, value: unknown) => (typeof value === 'number' ? floatText(value) : value));
}
