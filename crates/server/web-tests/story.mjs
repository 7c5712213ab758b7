// What is said in the pictures.
/** A file to be read and split. */
export const LEXER = Array.from({ length: 180 }, (_, at) => `fn scan_${at}(cursor: &mut Cursor) -> Token { cursor.take_while(|c| c.is_digit(${at % 10})) }`).join('\n');
/** An answer with everything that prose may have. */
export const ANSWER = `The tests fail because \`number\` stops at the underscore, so \`1_000\` becomes two tokens.

Three things change:

1. \`cursor.rs\` keeps the position and nothing else.
2. \`number.rs\` accepts \`_\` **between** digits, never at the end.
3. \`token.rs\` stays as it is, so the public API does not move.

\`\`\`rust
/// Digits with single underscores between them.
fn number(cursor: &mut Cursor) -> Result<Token, Error> {
    let text = cursor.take_while(|c| c.is_ascii_digit() || c == '_');
    if text.ends_with('_') {
        return Err(Error::TrailingUnderscore(cursor.position()));
    }
    Ok(Token::Number(text.replace('_', "").parse()?))
}
\`\`\`

| input | before | now |
| --- | --- | --- |
| \`1_000\` | two tokens | \`1000\` |
| \`1_\` | \`1\`, \`_\` | an error with its place |

Shall I run the whole suite next?`;

export const call = (name, args) => ({ name, args });
