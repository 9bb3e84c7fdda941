/** Names of SQL functions: those that must match exactly, and those that match in any case (marked `*` in the lists). */
export type NameList = { readonly exact: ReadonlySet<string>; readonly anyCase: ReadonlySet<string> };

/** Reads lists of names separated by white space. */
export function nameList(lists: readonly string[]): NameList {
  const all = lists.flatMap((list) => list.trim().split(/\s+/));
  return {
    exact: new Set(all.map((name) => name.replace('*', ''))),
    anyCase: new Set(all.filter((name) => name.endsWith('*')).map((name) => name.slice(0, -1).toLowerCase())),
  };
}

export function has(list: NameList, name: string): boolean {
  return list.exact.has(name) || list.anyCase.has(name.toLowerCase());
}
