// Package capacity searches for the highest number of lanes with which a server keeps its service levels.
//
// It plays nothing. A Search calls a function that probes one number of lanes, and an Outlook tells, from the values that a
// probe has brought so far, when a condition can no longer be met. Both are told the time.
//
//	search := capacity.Search{From: 1, To: 512}
//	answer, err := search.Run(ctx, func(ctx context.Context, lanes int) (capacity.Probe, error) { ... })
//	fmt.Println(answer)
package capacity
