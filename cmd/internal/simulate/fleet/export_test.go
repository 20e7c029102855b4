package fleet

// NewKV returns a KV router of a pool of a fleet, with a seed. Package router imports this one, so that tests in package fleet_test set it.
var NewKV func(o Options, pool int, seed uint64) Router
