// Package inferencex computes the numbers that InferenceX computes from the files of AIPerf: those of its aggregation, its
// error-rate gate, its sweep collector and its power window.
//
// It reads the rows, the aggregate and the table (doc/spec/results.md 15.7), from agentx or from AIPerf, as the programs
// of InferenceX read them: it drops the rows that they drop, and fails on the lines on which they fail. It shares no code with
// package aiperf, which writes the files, so that each can be held against the other.
package inferencex
