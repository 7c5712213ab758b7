// Ways in for other programs: what each is for, and what to paste. Pure.

const DATA_DIR = 'If the server runs with `--data-dir DIR`, add `"--data-dir", "DIR"` to the arguments, so that both have the same folder.';

/** `{title, says, text}` for a server at an origin. */
export function ways(origin) {
  return [
    {
      title: 'A client of OpenAI or Anthropic',
      says: 'The gateway passes its requests on to the model and compacts what outgrows the window. Programs on this machine need no key.',
      text: `OPENAI_BASE_URL=${origin}/v1 OPENAI_API_KEY=none your-client\nANTHROPIC_BASE_URL=${origin} ANTHROPIC_API_KEY=none your-other-client`,
    },
    {
      title: 'A script',
      says: 'Everything here goes over one HTTP API. The token is in this file, unless the server was started with `--data-dir DIR` (then in `DIR/token`), `--token-file` or `XDG_DATA_HOME`: it names the file when it starts.',
      text: [
        'TOKEN=$(cat ~/.local/share/longhaul/token)',
        `curl ${origin}/api/message \\`,
        `  -H "Authorization: Bearer $TOKEN" \\`,
        `  -H 'content-type: application/json' \\`,
        `  -d '{"content":"hello"}'`,
      ].join('\n'),
    },
    {
      title: 'An editor',
      says: `Editors that speak the Agent Client Protocol start it by themselves; this is for Zed. ${DATA_DIR}`,
      text: '{\n  "agent_servers": {\n    "Longhaul": { "type": "custom", "command": "longhaul", "args": ["acp"] }\n  }\n}',
    },
    {
      title: 'Another agent',
      says: `Over MCP any agent can look up what was said in your sessions. ${DATA_DIR}`,
      text: '{\n  "mcpServers": {\n    "longhaul": { "command": "longhaul", "args": ["mcp"] }\n  }\n}',
    },
  ];
}
