// What every Node client does here: many turns, each with its tools, the whole history sent again each time.

export const root = process.env.CHECK_URL;
export const mode = process.env.CHECK_MODE.split("+");
const turns = Number(process.env.CHECK_TURNS);
export const prompt = "You keep the log of a pumping station. Answer in plain words. ".repeat(12);
export const description = "The readings of a station.";
export const shape = {
  type: "object",
  properties: { station: { type: "string" }, rows: { type: "integer" } },
  required: ["station", "rows"],
};
export const texts = [];

const question = (turn) =>
  `Turn ${turn}: what does station ${(turn * 7) % 90} say, and what did it say before? ` + "Mind the valve. ".repeat(20);

export function tool(args) {
  const { station, rows } = typeof args === "string" ? JSON.parse(args) : args;
  const row = (at) => `${String(at).padStart(4, "0")} ${station} pressure ${(at * 37) % 911} flow ${(at * 53) % 877}`;
  return Array.from({ length: rows }, (_, at) => row(at)).join("\n");
}

/** Gives each question to `ask`, whatever happens, and prints what came. */
export async function run(ask) {
  const errors = [];
  try {
    for (let turn = 0; turn < turns; turn += 1) await ask(question(turn));
  } catch (error) {
    errors.push(`${error.name}: ${error.message}`.slice(0, 600));
  }
  console.log(JSON.stringify({ texts, errors }));
}
