// Package chain cuts the canonical streams of a session into blocks, and numbers the blocks: doc/spec/capture.md 5.3 to 5.5.
//
// A block is a keyed digest of its tokens and of the block before it. Equal beginnings of streams have equal blocks, and a
// number is all of a block that leaves the tree. A Tree is what a session remembers: digests of the segments that it has
// seen, so that a prompt costs what it adds.
//
//	tree, err := chain.New(key, chain.Options{Tokenizer: t, Name: "o200k_base", BlockSize: 64})
//	prompt, prepared, err := tree.Read(canon.Chat, body) // parses, tokenizes; any goroutine, many at a time
//	request, err := tree.Apply(q, prepared)              // numbers; one goroutine, in order of q
//
// Prepare is Read for a body that was parsed before its session was known. Neither adds segments to the tree: the result does
// not depend on who else reads, or when. A response of OpenAI's Responses is remembered by PrepareOutput and Remember, so that
// a prompt that names it goes on there.
package chain
