// Package meet lets the parts of a load begin together, end together, and know each other's clocks (doc/spec/cluster.md 3.2).
//
// Part 0 listens, every other part connects to it, and each connection stays for the whole run. Messages are JSON behind four bytes of
// length. A Meeting knows nothing of what is played: it carries the options of the parts as texts, and what they gain as JSON.
package meet
