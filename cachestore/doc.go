// Package cachestore keeps house in a cache root, a directory of many datasets and parts (package mmapcache says what is in
// each): it finds, lists, opens, copies, pins and removes them, while other processes and machines use the same root.
package cachestore
