// Portkey 1.15.2 answers every stream with 500 on Node 20 (`TypeError: immutable`): it changes headers that fetch made.
// Answers with headers of their own let it be timed.
const fetched = globalThis.fetch;
globalThis.fetch = async (...request) => {
  const { body, status, statusText, headers } = await fetched(...request);
  return new Response(body, { status, statusText, headers: new Headers(headers) });
};
