// Puts the project's licences into the package.
import { copyFileSync } from "node:fs";

for (const name of ["LICENSE-MIT", "LICENSE-APACHE"]) copyFileSync(new URL(`../../../${name}`, import.meta.url), name);
