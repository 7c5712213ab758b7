import type { components } from "./generated.js";

export type Schemas = components["schemas"];

/** A shape of the server's description. What may be missing is described as null too: it is missing, and never null. */
export type Shape<Name extends keyof Schemas> = Told<Schemas[Name]>;

export type Told<T> = T extends readonly (infer Item)[]
  ? Told<Item>[]
  : T extends object
    ? { [Key in keyof T]: undefined extends T[Key] ? Told<Exclude<T[Key], null>> : Told<T[Key]> }
    : T;

/** A shape that is told apart further than the description does. It is a compile error if it does not fit that. */
export type Narrowed<Name extends keyof Schemas, Narrow extends Schemas[Name]> = Narrow;
