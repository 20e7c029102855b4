package preset

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
func august(first FirstToken) Switches {
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
var choices = map[string][]string{
	"admission":           {string(AdmitGate), string(AdmitPreempt)},
	"full_hit":            {string(FullHitRecomputeLast), string(FullHitFree)},
	"alloc":               {string(AllocAllOrNothing), string(AllocPartial)},
	"block_visible":       {string(VisibleScheduled), string(VisibleAllocated)},
	"duplicates":          {string(DuplicatesCopies), string(DuplicatesMerge)},
	"sampled_block":       {string(SampledNextSchedule), string(SampledAtEmission)},
	"first_token":         {string(FirstWithDecode), string(FirstAtPrefill)},
	"decode_kv":           {string(KVLogical), string(KVUniqueBlocks)},
	"kv_events":           {string(EventsPassEnd), string(EventsPassStart)},
	"concurrency_unit":    {string(UnitSessions), string(UnitRequests)},
	"impossible":          {string(ImpossibleReject), string(ImpossibleDeadEnd)},
	"id_width":            {string(Width64), string(Width32)},
	"router_cost":         {string(CostCredit), string(CostWeight)},
	"router_tie":          {string(TieLeastDispatched), string(TieRandom)},
	"traffic_num_req":     {string(CountOffered), string(CountCompleted)},
	"tick_time":           {string(TickNominal), string(TickLastEventShared), string(TickLastEvent)},
	"balance":             {string(BalanceSteady), string(BalancePR8280)},
	"consolidation":       {string(On), string(Off)},
	"scale_while_scaling": {string(Off), string(On)},
	"hit_discount":        {string(On), string(Off)},
	"predictor":           {string(PredictKalman), string(PredictConstant), string(PredictARIMA)},
}
