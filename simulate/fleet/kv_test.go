package fleet_test

import (
	"github.com/agentx/agentx/simulate/fleet"
	"github.com/agentx/agentx/simulate/router"
)

func init() {
	fleet.NewKV = func(o fleet.Options, seed uint64) fleet.Router {
		r, err := router.New(router.Options{
			Config: router.Default(o.Switches.RouterCost), Switches: o.Switches, Engine: o.Engine, Timing: o.Timing, Seed: seed,
		})
		if err != nil {
			panic(err)
		}
		return r
	}
}
