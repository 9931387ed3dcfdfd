module github.com/randfeat/randfeat/models

go 1.26.0

require (
	github.com/randfeat/randfeat v0.1.0
	github.com/rivo/uniseg v0.4.7
	github.com/sbinet/npyio v0.6.0
	github.com/spf13/cobra v1.10.2
	golang.org/x/sys v0.49.0
	golang.org/x/text v0.43.0
)

require (
	github.com/campoy/embedmd v1.0.0 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	github.com/spf13/pflag v1.0.10 // indirect
	gonum.org/v1/gonum v0.17.0 // indirect
)
