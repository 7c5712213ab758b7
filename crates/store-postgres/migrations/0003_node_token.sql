-- A digest of the token that a node was started with, so that one with another token is not let in beside it. Null if it
-- did not say.
ALTER TABLE node ADD COLUMN token_digest text;
