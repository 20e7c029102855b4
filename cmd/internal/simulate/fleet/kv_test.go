package fleet_test

import (
	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/fleet"
	"github.com/agentx/agentx/cmd/internal/simulate/router"
)

func init() {
	fleet.NewKV = func(o fleet.Options, pool int, seed uint64) fleet.Router {
		role := engine.Aggregated
		if len(o.Pools) == 2 {
			role = [...]engine.Role{engine.Prefill, engine.Decode}[pool]
		}
		r, err := router.New(router.Options{
			Config: router.Default(o.Switches.RouterCost), Switches: o.Switches, Engine: o.Pools[pool].Engine, Timing: o.Pools[pool].Timing,
			Seed: seed, Role: role,
		})
		if err != nil {
			panic(err)
		}
		return r
	}
}
