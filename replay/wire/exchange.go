package wire

import "time"

// Exchange has the instants of a request on its connection; [Never] where a step did not happen. A kept connection was not
// connected. Between Result.Sent and WaitEnd the request waited for a connection of the pool.
type Exchange struct {
	WaitEnd      time.Duration // a kept connection was taken, or a new one may be made
	ConnectStart time.Duration
	ConnectEnd   time.Duration // TLS included
	SendStart    time.Duration // of the first byte of the request
	SendEnd      time.Duration // of its last byte
	FirstByte    time.Duration // of the answer
	LastByte     time.Duration
}

// NoExchange is the exchange of a request that got no connection.
var NoExchange = Exchange{Never, Never, Never, Never, Never, Never, Never}
