/**
 * The shortest decimal that names a float32, as a double: what NumPy, PyTorch and engines print for one, and what a file held when it was written from one.
 * A decimal of 6 significant digits always survives float32; 9 always name it (IEEE 754-2019, 5.12.2).
 */
export function shortestFloat32(value: number): number {
  if (!Number.isFinite(value) || value === 0) return value;
  for (let digits = 6; digits < 9; digits++) {
    const decimal = Number(value.toPrecision(digits));
    if (Math.fround(decimal) === value) return decimal;
  }
  return Number(value.toPrecision(9));
}
