// Package timeline turns the recorded times of a trace into the times at which a replay plays it: delays, spawn offsets,
// joins, predecessors, and the views that change them without another cache. Its functions are pure. The conversion and the
// replay both import them, so that neither has a copy.
//
// View.TurnTimes returns the times of the turns of one session. SpawnTurn, JoinTurn and SpawnOffset place a session among the
// turns of the main one. Predecessors finds which turns of other sessions must have completed before a turn is sent. A
// Warp cuts idle gaps of a whole trace.
//
// Inputs are seconds as recorded, NaN where a value is missing. Outputs are milliseconds. The order of the arithmetic is
// that of doc/spec/reconstruction.md 6, so that results compare bit for bit.
package timeline
