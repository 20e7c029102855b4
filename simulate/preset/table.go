package preset

import (
	"reflect"
	"slices"
	"strings"
)

// table has the value of every switch under every preset.
var table = map[string]Switches{
	Default: {
		Admission: AdmitGate, FullHit: FullHitRecomputeLast, Alloc: AllocAllOrNothing, BlockVisible: VisibleScheduled,
		Duplicates: DuplicatesCopies, SampledBlock: SampledNextSchedule, FirstToken: FirstWithDecode, DecodeKV: KVLogical,
		KVEvents: EventsPassEnd, ConcurrencyUnit: UnitSessions, Impossible: ImpossibleReject, IDWidth: Width64,
		RouterCost: CostCredit, RouterTie: TieLeastDispatched, TrafficNumReq: CountOffered, TickTime: TickNominal,
		Balance: BalanceSteady, Consolidation: On, ScaleWhileScaling: Off, HitDiscount: On, Predictor: PredictKalman,
	},
	Dynamo16: august(FirstAtPrefill),
	August:   august(FirstWithDecode),
	April: {
		Admission: AdmitPreempt, FullHit: FullHitFree, Alloc: AllocPartial, BlockVisible: VisibleAllocated,
		Duplicates: DuplicatesMerge, SampledBlock: SampledAtEmission, FirstToken: FirstWithDecode, DecodeKV: KVUniqueBlocks,
		KVEvents: EventsPassStart, ConcurrencyUnit: UnitRequests, Impossible: ImpossibleDeadEnd, IDWidth: Width32,
		RouterCost: CostWeight, RouterTie: TieRandom, TrafficNumReq: CountCompleted, TickTime: TickLastEvent,
		Balance: BalancePR8280, Consolidation: Off, ScaleWhileScaling: On, HitDiscount: Off, Predictor: PredictARIMA,
	},
}

// august returns the switches of August 2026, and those of 1.6, which differ in the first token alone.
func august(first Choice) Switches {
	return Switches{
		Admission: AdmitGate, FullHit: FullHitRecomputeLast, Alloc: AllocAllOrNothing, BlockVisible: VisibleScheduled,
		Duplicates: DuplicatesCopies, SampledBlock: SampledNextSchedule, FirstToken: first, DecodeKV: KVLogical,
		KVEvents: EventsPassEnd, ConcurrencyUnit: UnitSessions, Impossible: ImpossibleReject, IDWidth: Width32,
		RouterCost: CostCredit, RouterTie: TieRandom, TrafficNumReq: CountOffered, TickTime: TickLastEventShared,
		Balance: BalanceSteady, Consolidation: On, ScaleWhileScaling: Off, HitDiscount: On, Predictor: PredictARIMA,
	}
}

// Named returns the switches of a preset. ok is false for an unknown name.
func Named(name string) (s Switches, ok bool) {
	s, ok = table[name]
	return s, ok
}

// choices are the values of the switches, by name, the default first.
var choices = func() map[string][]string {
	all := map[string][]string{}
	for _, name := range Names {
		values := reflect.ValueOf(table[name])
		for field, value := range values.Fields() {
			list := all[field.Tag.Get("json")]
			if name != Default && len(list) == 1 {
				list = append(list, strings.Fields(field.Tag.Get("also"))...)
			}
			if !slices.Contains(list, value.String()) {
				list = append(list, value.String())
			}
			all[field.Tag.Get("json")] = list
		}
	}
	return all
}()
