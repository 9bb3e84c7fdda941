/**
 * A float whose value happens to be whole, kept apart from the integer: JSON `600.0` against `600`. JavaScript numbers cannot tell them apart, so
 * readers that must write a document back exactly ask the decoder for these boxes; the encoder writes them as floats.
 */
export class WholeFloat {
  readonly value: number;

  constructor(value: number) {
    this.value = value;
  }

  /** A float as the decoder would give it: boxed when it could be mistaken for an integer. */
  static box(value: number): number | WholeFloat {
    return Number.isInteger(value) ? new WholeFloat(value) : value;
  }
}
