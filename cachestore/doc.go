// Package cachestore manages a cache root: a directory that holds many datasets and parts, often on a disk that many
// machines share. It finds, lists, opens, copies, pins and removes them while other processes use the same root. Package
// mmapcache says what is in each dataset.
//
// # Use a dataset
//
// Open opens a dataset and notes that this process uses it, so that no GC removes it meanwhile:
//
//	cache, err := cachestore.Find("/data/agentx", "3f9c01d2") // 8 characters of a key, or a path
//	...
//	dataset, err := cachestore.Open(ctx, cache.Root, cache.Key)
//	...
//	defer dataset.Close()
//	fmt.Println(dataset.Traces())
//
// # Make a directory
//
// Claim gives one process the right to make a directory; the others wait and then find it made. Package convert is built
// on it.
//
// # Free space
//
// GC removes garbage, then what was not used for long. Pin keeps a dataset from that, Remove removes one by name:
//
//	limit := int64(20e9)
//	report, err := cachestore.GC(ctx, root, cachestore.GCOptions{MaxBytes: &limit})
//
// # Share a root
//
// Copy brings a dataset from one root to another and verifies every byte on arrival. Nothing here uses locks of the file
// system, which not every network file system has: leases, notes of use and marks are files (internal/durable).
package cachestore
