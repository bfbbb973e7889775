// Registers of the switch on AXI-Lite: words of 32 bits, at these bytes. Settings can be written only while the switch
// does not run: turned off, it runs on until the MAC has taken what it has begun. Counters wrap around.
`ifndef REGISTER_MAP_VH
`define REGISTER_MAP_VH

`define REGISTER_IDENTITY 8'h00 // "FNIN"; can only be read
`define REGISTER_VERSION 8'h04 // of the protocol; can only be read
`define REGISTER_CONTROL 8'h08 // bit 0: the switch is to run
`define REGISTER_STATUS 8'h0c // bit 0: it runs; can only be read
`define REGISTER_MAC_HIGH 8'h10 // setting: Ethernet address of the switch, its first two bytes
`define REGISTER_MAC_LOW 8'h14 // setting: the other four
`define REGISTER_ADDRESS 8'h18 // setting: IPv4 address of the switch
`define REGISTER_GROUP 8'h1c // setting: IPv4 address of its multicast group; 0: there is none
`define REGISTER_GROUP_SIZE 8'h20 // setting: how many devices listen there, 16 bits
`define REGISTER_RECEIVED 8'h40 // frames for it that came through the queue before it
`define REGISTER_SENT 8'h44 // frames that it gave to the queue behind it
`define REGISTER_OVERFLOWS 8'h48 // frames for it that found no room before it; 0 after a reset of the receiving clock
`define REGISTER_BAD_FRAMES 8'h4c // frames for it that the MAC marked as bad; likewise
`define REGISTER_DROPS 8'h80 // packets that it dropped: a word for each number of drop_reasons.vh; 0 while it does not run

`define REGISTER_IDENTITY_VALUE 32'h464e494e

`endif
