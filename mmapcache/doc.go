// Package mmapcache reads, writes and checks datasets: recorded agent sessions, prepared so that the prompt of every turn
// is assembled from memory-mapped files, without tokenizing.
//
// Package convert makes a dataset, and package cachestore finds, lists, copies and removes the datasets of a cache root.
// Open opens one by its key:
//
//	c, err := mmapcache.Open(root, key)
//	if err != nil {
//		return err
//	}
//	defer c.Close()
//	trace, err := c.Render(0, mmapcache.Text)
//	if err != nil {
//		return err
//	}
//	var prompt mmapcache.Prompt
//	for turn := range trace.Turns {
//		trace.Prompt(turn, &prompt)
//		for k, m := range prompt.Messages {
//			fmt.Printf("%s: %s\n", m.Role, prompt.AppendText(nil, k))
//		}
//	}
//
// # Types
//
// A Cache is an open dataset. Its traces are numbered: Cache.Plan reads what was recorded of one, with its sessions, turns and the
// segments that prompts are made of. A large dataset is a list of shards, whose traces are numbered through. A shard is opened when a
// trace of it is first asked for; Cache.EachShard is the way to read all traces, one shard after another, as a Structure: tables. Plan.Times says when each turn is due and which turns must
// have completed before it, under a View. A RenderedTrace adds where the text or the token ids of every block lie, and
// fills a Prompt with the messages of a turn.
//
// A Builder writes a directory of a dataset. Verify recomputes every digest of a dataset. Cache.Digest, Cache.WriteText,
// Cache.Reuse and Cache.Sharing describe what a dataset holds.
//
// # Lifetime
//
// A Cache may be used by several goroutines. What it returns, a RenderedTrace and a Prompt included, is a view of mapped
// files and must not be used after Close. AppendContent and the other Append methods copy.
//
// Another process may cut a mapped file. Reading behind its end would then kill the process. The methods of this package
// that return an error turn such a fault into an error that wraps ErrDamaged and names the file; Guard does so for a
// function that calls the others.
//
// # Files
//
// format.go describes the files byte by byte.
package mmapcache
