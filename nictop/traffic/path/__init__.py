"""The path test between two watched hosts: `session` does all of it, `run` tests both ends,
`result` has what they found, `outcomes` says what the answers mean, and `findings` lists what is
wrong with commands that fix it."""
