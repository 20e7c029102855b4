// Package hitcurve says which share of prompt tokens a prefix cache would hold, by its size: doc/spec/simulate.md 16.
//
// Order plays a load against a server of given rates and returns the prompts in the order in which they leave. Compute
// gives the curve of that order: for LRU from stack distances, which one pass finds for all sizes; for the optimal policy from the
// pieces of prompts that are used next by the same request; for FIFO block by block.
package hitcurve
