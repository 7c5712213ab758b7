// A session of 2,000 messages and an answer of 90 paragraphs, for the tests and the measurement of long sessions.

/** 2,000 messages: turns with prose, lists, code and tools. The last answer is number 499. */
export function history() {
  const messages = [];
  for (let turn = 0; messages.length < 2_000; turn += 1) {
    const call = { id: `t${turn}`, type: 'function', function: { name: 'read', arguments: `{"path":"file${turn}.rs"}` } };
    messages.push(
      { role: 'user', content: `Question ${turn}: what does file${turn}.rs do, and why?` },
      { role: 'assistant', content: `I look into file ${turn}.`, tool_calls: [call] },
      { role: 'tool', tool_call_id: `t${turn}`, content: `fn main() {\n    println!("${turn}");\n}` },
      { role: 'assistant', content: `It prints **${turn}**.\n\n- one\n- two\n\n\`\`\`rust\nfn f${turn}() { }\n\`\`\`\n\nThat is answer ${turn}.` },
    );
  }
  return messages;
}

export const prose = Array.from({ length: 90 }, (_, at) => `Paragraph ${at} with **bold** and \`code\` in a sentence of some length that wraps.\n\n${at % 6 ? '' : '```rust\nlet x = 1;\n```\n\n'}`).join('');

/** Milliseconds until session `id` shows its `rows` newest messages, or more. */
export async function timeToOpen(page, id, rows) {
  await page.evaluate(() => { location.hash = '#/'; });
  await page.locator('#empty').waitFor();
  return page.evaluate(({ hash, enough }) => new Promise((resolve) => {
    const begun = performance.now();
    location.hash = hash;
    const look = () => {
      const shown = document.querySelectorAll('.rows .message').length;
      if (shown >= enough && document.getElementById('loading').hidden) requestAnimationFrame(() => resolve(performance.now() - begun));
      else requestAnimationFrame(look);
    };
    look();
  }), { hash: `#/s/${id}`, enough: rows });
}
