"""Texts of kernel messages about problems of NICs: which driver logs them, and what they mean.

From the source code of the kernel; each entry names the file. The probe keeps messages with one of
these texts (`kernel_log`) and looks for them in new messages (`nictop.probe.events.kernel`);
`nictop.model.kernel_log` finds the device, and the rules evaluate the meaning. Another message is
one line here, and a sample in tests/data/kernel_messages.tsv. Reads nothing, and imports nothing:
the probe process has it, too.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Literal

    Meaning = Literal[
        "no_vf_interrupts",  # no interrupts are left for VFs
        "rdma_stalled",  # the RDMA driver on top of the NIC waits for the firmware
        "open_failed",  # the driver could not bring the interface up
        "transmit_stalled",  # a transmit queue or unit hangs
        "reset",  # the driver resets the NIC
        # the device does not respond or has left the bus; the driver has detached it
        "device_gone",
        "probe_failed",  # the driver could not start
        "transceiver_refused",  # the driver does not accept the plugged-in module
        "firmware_error",  # the firmware failed, or is in recovery mode
        "firmware_missing",  # a firmware file was not found
        "hardware_fault",  # overheated, damaged EEPROM, PHY without answer
        "no_msix",  # MSI-X could not be used
        "link_lost",  # the carrier was lost
        "link_opened",  # the interface was set up; kept only beside a loss of its carrier
        "vf_reset",  # a VF is reset by its PF, or waits for it
        "vf_request_failed",  # PF: a request of a VF failed, with its number
        "vf_address_refused",  # PF: a VF may not use this MAC address or VLAN
        "vf_limit_reached",  # PF: an untrusted VF needs more addresses than it may have
        "vf_spoofs",  # PF: a VF sends with foreign source addresses
        "vf_malicious",  # PF: a VF has been stopped for malformed requests
        "vf_address_set",  # PF: the administrator has set the address of a VF
        "pf_refused",  # VF: its PF has refused a request
        "port_was_down",  # VF: its PF was down or in reset when the driver started
        "no_vf_resources",  # the kernel has no addresses or bus numbers for VFs
        "pcie_error",  # an error of the PCIe link (AER)
        "pcie_bandwidth",  # a PCIe link on the way limits the NIC
        "passthrough_failed",  # vfio or the IOMMU could not give the device to a guest
        "iommu_fault",  # the IOMMU has blocked an access of the device
        "path_switched",  # Hyper-V: traffic moved to the VF
        "path_left",  # Hyper-V: traffic moved away from the VF
        "interrupt_type",  # vmxnet3: which interrupts it uses
        "cpu_starved",  # a CPU did not run for seconds
        "renamed",  # the interface got another name
        "rename_failed",  # udev could not rename the interface
        "own_address",  # a bridge receives its own frames
        "martian",  # a packet with an impossible source was dropped
        "connections_full",  # the connection tracking table is full
        "neighbours_full",  # the neighbour table is full
        "vf_setting_failed",  # PF: a setting of a VF was rejected for now
        "random_address",  # VF: the driver has made up a MAC address
        "invalid_address",  # the MAC address in the NIC is not valid
        "duplicate_address",  # an IPv6 address is in use by another host
        "completions_missed",  # the driver missed completions of the device
        "memory_locked",  # vfio could not lock the memory of a guest
        "no_bar",  # a device has no address space
    ]

ANY = "any"
"""`Known.driver` of texts that identify a message, whoever logs it."""
PCI = "pci"
"""`Known.driver` of messages about PCI devices of any kind: they count if they name a network
function or the port above it."""
OF_ANY_DEVICE = (PCI, "vfio-pci")
"""Values of `Known.driver` whose messages may be about a graphics card as well."""
UDEV = ("systemd-udevd", "(udev-worker)")
"""Programs that write to the kernel log when links are renamed at boot."""
LOG_DAEMON = 3
"""Facility of their messages, syslog.h."""
MAX_KMSG_BYTES = 8192
"""Bytes of a record in /dev/kmsg, CONSOLE_EXT_LOG_MAX."""
MAX_FIRST_WORD_BYTES = 40


class Known:
    """A kernel message that is known."""

    __slots__ = ("driver", "meaning", "source", "text")

    def __init__(self, driver: str, text: str, meaning: Meaning, source: str) -> None:
        self.driver = driver
        """First word of the message; or `ANY`, `PCI`."""
        self.text = text
        """Part of the message, white space folded."""
        self.meaning = meaning
        self.source = source
        """File of the kernel source, or where else it was seen."""


TABLE: tuple[Known, ...] = (
    Known(
        "atlantic",
        "MAC kickstart failed",
        "firmware_error",
        "aquantia/atlantic/hw_atl/hw_atl_utils.c",
    ),
    Known(
        "atlantic",
        "FW kickstart failed",
        "firmware_error",
        "aquantia/atlantic/hw_atl/hw_atl_utils.c",
    ),
    Known(
        "atlantic",
        "RBL Restart failed",
        "firmware_error",
        "aquantia/atlantic/hw_atl/hw_atl_utils.c",
    ),
    Known(
        "atlantic",
        "No FW detected. Dynamic FW load not implemented",
        "firmware_error",
        "aquantia/atlantic/hw_atl/hw_atl_utils.c",
    ),
    Known(
        "atlantic",
        "FW Restart timed out",
        "firmware_error",
        "aquantia/atlantic/hw_atl2/hw_atl2_utils.c",
    ),
    Known(
        "atlantic",
        "FW Restart failed",
        "firmware_error",
        "aquantia/atlantic/hw_atl2/hw_atl2_utils.c",
    ),
    Known(
        "atlantic", "FW Init failed", "firmware_error", "aquantia/atlantic/hw_atl2/hw_atl2_utils.c"
    ),
    Known(
        "atlantic",
        "MAC is invalid, will use random.",
        "random_address",
        "aquantia/atlantic/aq_nic.c",
    ),
    Known(
        "bnx2x",
        "Indicating link is down due to Tx-timeout",
        "transmit_stalled",
        "broadcom/bnx2x/bnx2x_main.c",
    ),
    Known("bnx2x", "FW failed to respond!", "firmware_error", "broadcom/bnx2x/bnx2x_main.c"),
    Known("bnx2x", "MFW seems hanged", "firmware_error", "broadcom/bnx2x/bnx2x_main.c"),
    Known(
        "bnx2x",
        "Fan Failure on Network Controller",
        "hardware_fault",
        "broadcom/bnx2x/bnx2x_main.c",
    ),
    Known(
        "bnx2x",
        "Recovery has failed. Power cycle is needed",
        "reset",
        "broadcom/bnx2x/bnx2x_main.c",
    ),
    Known("bnx2x", "Chip read returns all Fs", "device_gone", "broadcom/bnx2x/bnx2x_main.c"),
    Known("bnx2x", "Can't load firmware file", "firmware_missing", "broadcom/bnx2x/bnx2x_main.c"),
    Known("bnx2x", "Non-valid Ethernet address", "invalid_address", "broadcom/bnx2x/bnx2x_main.c"),
    Known(
        "bnxt_en",
        "TX timeout detected, starting reset task!",
        "transmit_stalled",
        "broadcom/bnxt/bnxt.c",
    ),
    Known("bnxt_en", "Ring monitor event, ring type", "transmit_stalled", "broadcom/bnxt/bnxt.c"),
    Known("bnxt_en", "PCI config space invalid", "device_gone", "broadcom/bnxt/bnxt.c"),
    Known("bnxt_en", "firmware reset event, data1", "reset", "broadcom/bnxt/bnxt.c"),
    Known("bnxt_en", "Firmware reset aborted", "reset", "broadcom/bnxt/bnxt.c"),
    Known("bnxt_en", "Unable to reset FW", "reset", "broadcom/bnxt/bnxt.c"),
    Known("bnxt_en", "bnxt_open() failed during FW reset", "reset", "broadcom/bnxt/bnxt.c"),
    Known(
        "bnxt_en",
        "Detected firmware fatal condition, initiating reset",
        "firmware_error",
        "broadcom/bnxt/bnxt.c",
    ),
    Known("bnxt_en", "Firmware not responding, status", "firmware_error", "broadcom/bnxt/bnxt.c"),
    Known("bnxt_en", "Error (timeout", "firmware_error", "broadcom/bnxt/bnxt_hwrm.c"),
    Known("bnxt_en", "Firmware not ready", "firmware_error", "broadcom/bnxt/bnxt.c"),
    Known(
        "bnxt_en", "PCI config space inaccessible after FLR", "device_gone", "broadcom/bnxt/bnxt.c"
    ),
    Known("bnxt_en", "PCI I/O error detected", "pcie_error", "broadcom/bnxt/bnxt.c"),
    Known("bnxt_en", "Cannot enable PCI device, aborting", "probe_failed", "broadcom/bnxt/bnxt.c"),
    Known("bnxt_en", "Cannot find PCI device base address", "probe_failed", "broadcom/bnxt/bnxt.c"),
    Known("bnxt_en", "Cannot map device registers", "probe_failed", "broadcom/bnxt/bnxt.c"),
    Known("bnxt_en", "MSIX capability not found", "no_msix", "broadcom/bnxt/bnxt.c"),
    Known("bnxt_en", "Requested MSI-X vectors insufficient", "no_msix", "broadcom/bnxt/bnxt_ulp.c"),
    Known(
        "bnxt_en",
        "Unqualified SFP+ module detected on port",
        "transceiver_refused",
        "broadcom/bnxt/bnxt.c",
    ),
    Known("bnxt_en", "SFP+ module is shutdown", "transceiver_refused", "broadcom/bnxt/bnxt.c"),
    Known("bnxt_en", "NIC Link is Down", "link_lost", "broadcom/bnxt/bnxt.c"),
    Known("bnxt_en", "gone above the", "hardware_fault", "broadcom/bnxt/bnxt.c"),
    Known("bnxt_en", "Receive PF driver unload event!", "vf_reset", "broadcom/bnxt/bnxt.c"),
    Known("bnxt_en", "while PF is unavailable", "vf_reset", "broadcom/bnxt/bnxt.c"),
    Known("bnxt_en", "not approved by the PF", "pf_refused", "broadcom/bnxt/bnxt_sriov.c"),
    Known("bnxt_en", "Unable to initialize mac address", "invalid_address", "broadcom/bnxt/bnxt.c"),
    Known("bnxt_en", "bnxt_alloc_mem err", "open_failed", "broadcom/bnxt/bnxt.c"),
    Known("bnxt_en", "nic open fail", "open_failed", "broadcom/bnxt/bnxt.c"),
    Known("e1000", "Detected Tx Unit Hang", "transmit_stalled", "intel/e1000/e1000_main.c"),
    Known("e1000", "Reset adapter", "reset", "intel/e1000/e1000_main.c"),
    Known("e1000", "Hardware Error", "reset", "intel/e1000/e1000_main.c"),
    Known("e1000", "NIC Link is Down", "link_lost", "intel/e1000/e1000_main.c"),
    Known(
        "e1000", "The EEPROM Checksum Is Not Valid", "hardware_fault", "intel/e1000/e1000_main.c"
    ),
    Known("e1000", "This is not a software error!", "hardware_fault", "intel/e1000/e1000_main.c"),
    Known("e1000", "EEPROM Read Error", "hardware_fault", "intel/e1000/e1000_main.c"),
    Known("e1000", "Invalid MAC Address", "invalid_address", "intel/e1000/e1000_main.c"),
    Known("e1000e", "Detected Hardware Unit Hang", "transmit_stalled", "intel/e1000e/netdev.c"),
    Known("e1000e", "Reset adapter unexpectedly", "reset", "intel/e1000e/netdev.c"),
    Known("e1000e", "Hardware Error", "reset", "intel/e1000e/netdev.c"),
    Known("e1000e", "ME firmware caused invalid RDT - resetting", "reset", "intel/e1000e/netdev.c"),
    Known("e1000e", "ME firmware caused invalid TDT - resetting", "reset", "intel/e1000e/netdev.c"),
    Known("e1000e", "NIC Link is Down", "link_lost", "intel/e1000e/netdev.c"),
    Known("e1000e", "Failed to initialize MSI-X interrupts", "no_msix", "intel/e1000e/netdev.c"),
    Known("e1000e", "Failed to initialize MSI interrupts", "no_msix", "intel/e1000e/netdev.c"),
    Known(
        "e1000e",
        "MSI interrupt test failed, using legacy interrupt",
        "no_msix",
        "intel/e1000e/netdev.c",
    ),
    Known("e1000e", "The NVM Checksum Is Not Valid", "hardware_fault", "intel/e1000e/netdev.c"),
    Known(
        "e1000e",
        "NVM Read Error while reading MAC address",
        "hardware_fault",
        "intel/e1000e/netdev.c",
    ),
    Known("e1000e", "Error reading PHY register", "hardware_fault", "intel/e1000e/netdev.c"),
    Known("e1000e", "Invalid MAC Address", "invalid_address", "intel/e1000e/netdev.c"),
    Known(
        "ena", "is paused for too long (threshold", "completions_missed", "amazon/ena/ena_netdev.c"
    ),
    Known(
        "ena",
        "napi handler hasn't been called for a long time but is scheduled",
        "cpu_starved",
        "amazon/ena/ena_netdev.c",
    ),
    Known("ena", "TX hasn't completed, qid", "completions_missed", "amazon/ena/ena_netdev.c"),
    Known(
        "ena",
        "Found a Tx that wasn't completed on time, qid",
        "completions_missed",
        "amazon/ena/ena_netdev.c",
    ),
    Known(
        "ena",
        "new missed TX completions, qid",
        "completions_missed",
        "kernel/linux/ena/ena_netdev.c",
    ),
    Known(
        "ena",
        "The ena device sent a completion but the driver didn't receive a MSI-X interrupt",
        "completions_missed",
        "amazon/ena/ena_com.c",
    ),
    Known("ena", "Lost TX completions are above the threshold", "reset", "amazon/ena/ena_netdev.c"),
    Known(
        "ena",
        "The number of lost tx completions is above the threshold",
        "reset",
        "amazon/ena/ena_netdev.c",
    ),
    Known("ena", "Keep alive watchdog timeout", "reset", "amazon/ena/ena_netdev.c"),
    Known("ena", "ENA admin queue is not in running state!", "reset", "amazon/ena/ena_netdev.c"),
    Known("ena", "Device reset failed", "reset", "amazon/ena/ena_netdev.c"),
    Known(
        "ena", "Reset attempt failed. Can not reset the device", "reset", "amazon/ena/ena_netdev.c"
    ),
    Known("ena", "Device reset completed", "reset", "amazon/ena/ena_netdev.c"),
    Known(
        "ena",
        "The device has detected an unhealthy state, reset is requested",
        "reset",
        "kernel/linux/ena/ena_netdev.c",
    ),
    Known("ena", "Trigger reset is on", "reset", "amazon/ena/ena_netdev.c"),
    Known(
        "ena",
        "FW isn't responsive, skipping reset routine",
        "firmware_error",
        "kernel/linux/ena/ena_netdev.c",
    ),
    Known(
        "ena",
        "The ena device didn't send a completion for the admin cmd",
        "firmware_error",
        "amazon/ena/ena_com.c",
    ),
    Known("ena", "Wait for completion (polling) timeout", "firmware_error", "amazon/ena/ena_com.c"),
    Known("ena", "Reg read timeout occurred", "firmware_error", "amazon/ena/ena_com.c"),
    Known("ena", "Failed to get stats. error:", "firmware_error", "amazon/ena/ena_com.c"),
    Known("ena", "ENA device init failed", "probe_failed", "amazon/ena/ena_netdev.c"),
    Known(
        "ena",
        "Can not initialize ena admin queue with device",
        "probe_failed",
        "amazon/ena/ena_netdev.c",
    ),
    Known("ena", "Failed to enable MSI-X. irq_cnt", "no_msix", "amazon/ena/ena_netdev.c"),
    Known("ena", "Enable MSI-X failed", "no_msix", "amazon/ena/ena_netdev.c"),
    Known("ena", "Reading reg failed for timeout", "firmware_error", "amazon/ena/ena_com.c"),
    Known("gve", "Timeout on tx queue,", "transmit_stalled", "google/gve/gve_main.c"),
    Known("gve", "Device requested reset.", "reset", "google/gve/gve_main.c"),
    Known("gve", "Performing reset", "reset", "google/gve/gve_main.c"),
    Known("gve", "!!! DISABLING ALL QUEUES !!!", "reset", "google/gve/gve_main.c"),
    Known(
        "gve",
        "AQ commands timed out, need to reset AQ",
        "firmware_error",
        "google/gve/gve_adminq.c",
    ),
    Known("gve", "AQ command failed with status", "firmware_error", "google/gve/gve_adminq.c"),
    Known("gve", "Device link is down.", "link_lost", "google/gve/gve_main.c"),
    Known("gve", "Could not enable min msix", "no_msix", "google/gve/gve_main.c"),
    Known("gve", "Could not enable desired msix, only enabled", "no_msix", "google/gve/gve_main.c"),
    Known("gve", "Could not verify driver compatibility", "probe_failed", "google/gve/gve_main.c"),
    Known("gve", "Could not get device information", "probe_failed", "google/gve/gve_main.c"),
    Known("hv_netvsc", "Data path switched from VF", "path_left", "hyperv/netvsc_drv.c"),
    Known("hv_netvsc", "Data path switched to VF", "path_switched", "hyperv/netvsc_drv.c"),
    Known("hv_netvsc", "unable to open device (ret", "open_failed", "hyperv/netvsc_drv.c"),
    Known(
        "hv_netvsc", "nvsp_rndis_pkt_complete error status", "transmit_stalled", "hyperv/netvsc.c"
    ),
    Known("i40e", "tx_timeout: VSI_seid", "transmit_stalled", "intel/i40e/i40e_main.c"),
    Known("i40e", "tx_timeout recovery level", "transmit_stalled", "intel/i40e/i40e_main.c"),
    Known("i40e", "tx_timeout recovery unsuccessful", "transmit_stalled", "intel/i40e/i40e_main.c"),
    Known("i40e", "device will be reset", "reset", "intel/i40e/i40e_main.c"),
    Known("i40e", "PF reset failed", "reset", "intel/i40e/i40e_main.c"),
    Known("i40e", "Rebuild AdminQ failed", "reset", "intel/i40e/i40e_main.c"),
    Known("i40e", "pf_reset failed", "reset", "search:ntop/PF_RING#493"),
    Known(
        "i40e",
        "TX driver issue detected, PF reset issued",
        "reset",
        "search:find_string id 14377396896",
    ),
    Known("i40e", "Firmware recovery mode detected", "firmware_error", "intel/i40e/i40e_main.c"),
    Known(
        "i40e",
        "Entering recovery mode due to repeated FW resets",
        "firmware_error",
        "intel/i40e/i40e_main.c",
    ),
    Known(
        "i40e",
        "Please do Power-On Reset to initialize adapter",
        "firmware_error",
        "intel/i40e/i40e_main.c",
    ),
    Known("i40e", "device firmware failed to init", "firmware_error", "intel/i40e/i40e_main.c"),
    Known("i40e", "HMC error interrupt", "firmware_error", "intel/i40e/i40e_main.c"),
    Known(
        "i40e",
        "The driver for the device stopped because the NVM image",
        "probe_failed",
        "intel/i40e/i40e_main.c",
    ),
    Known("i40e", "setup_pf_switch failed", "probe_failed", "intel/i40e/i40e_main.c"),
    Known("i40e", "MSI-X not available, trying MSI", "no_msix", "intel/i40e/i40e_main.c"),
    Known(
        "i40e",
        "MSI-X and MSI not available, falling back to Legacy IRQ",
        "no_msix",
        "intel/i40e/i40e_main.c",
    ),
    Known("i40e", "MSI-X vector limit reached with", "no_msix", "intel/i40e/i40e_main.c"),
    Known("i40e", "not enough MSI-X vectors", "no_msix", "intel/i40e/i40e_main.c"),
    Known(
        "i40e",
        "because an unsupported SFP module type was detected",
        "transceiver_refused",
        "intel/i40e/i40e_main.c",
    ),
    Known(
        "i40e",
        "failed to link because an unqualified module was detected",
        "transceiver_refused",
        "search:find_string id 24130838568 (i40e_main.c, kernel 4.x)",
    ),
    Known(
        "i40e",
        "is not recognized, or incorrect cable is in use",
        "transceiver_refused",
        "intel/i40e/i40e_ethtool.c",
    ),
    Known("i40e", "NIC Link is Down", "link_lost", "intel/i40e/i40e_main.c"),
    Known("i40e", "i40e_pci_error_detected: error", "pcie_error", "intel/i40e/i40e_main.c"),
    Known("i40e", "eeprom check failed", "hardware_fault", "intel/i40e/i40e_main.c"),
    Known("i40e", "unidentified MAC or BLANK NVM", "hardware_fault", "intel/i40e/i40e_main.c"),
    Known("i40e", "invalid MAC address", "invalid_address", "intel/i40e/i40e_main.c"),
    Known(
        "i40e",
        "because the module does not meet thermal requirements",
        "transceiver_refused",
        "intel/i40e/i40e_main.c",
    ),
    Known("i40e", "Malicious Driver Detection event", "vf_malicious", "intel/i40e/i40e_main.c"),
    Known("i40e", "TX driver issue detected on VF", "vf_malicious", "intel/i40e/i40e_main.c"),
    Known("i40e", "RX driver issue detected on VF", "vf_malicious", "intel/i40e/i40e_main.c"),
    Known(
        "i40e",
        "VF attempting to override administratively set MAC address",
        "vf_address_refused",
        "intel/i40e/i40e_virtchnl_pf.c",
    ),
    Known(
        "i40e", "is not trusted, switch the VF", "vf_limit_reached", "intel/i40e/i40e_virtchnl_pf.c"
    ),
    Known(
        "i40e",
        "reached its maximum allowed limit",
        "vf_limit_reached",
        "search:intel-wired-lan msg13216",
    ),
    Known("i40e", "Invalid message from VF", "vf_request_failed", "intel/i40e/i40e_virtchnl_pf.c"),
    Known("i40e", "Unsupported opcode", "vf_request_failed", "intel/i40e/i40e_virtchnl_pf.c"),
    Known(
        "i40e",
        "failed opcode",
        "vf_request_failed",
        "search:cisco-system-traffic-generator/trex-core#635",
    ),
    Known(
        "i40e",
        "Number of invalid messages exceeded for VF",
        "vf_request_failed",
        "search:find_string id 2605925 (i40e_virtchnl_pf.c, kernel ~5.10)",
    ),
    Known("i40e", "in reset. Try again", "vf_setting_failed", "intel/i40e/i40e_virtchnl_pf.c"),
    Known("i40e", "Setting MAC ", "vf_address_set", "intel/i40e/i40e_virtchnl_pf.c"),
    Known(
        "iavf", "Reset indication received from the PF", "vf_reset", "intel/iavf/iavf_virtchnl.c"
    ),
    Known("iavf", "Hardware reset detected", "vf_reset", "intel/iavf/iavf_main.c"),
    Known("iavf", "Reset never finished", "vf_reset", "intel/iavf/iavf_main.c"),
    Known("iavf", "Never saw reset", "vf_reset", "intel/iavf/iavf_main.c"),
    Known("iavf", "Unable to send to PF", "vf_reset", "intel/iavf/iavf_main.c"),
    Known(
        "iavf",
        "Unable to open device due to PF driver failure",
        "vf_reset",
        "intel/iavf/iavf_main.c",
    ),
    Known("iavf", "PF returned error", "pf_refused", "intel/iavf/iavf_virtchnl.c"),
    Known("iavf", "Failed to add MAC filter", "pf_refused", "intel/iavf/iavf_virtchnl.c"),
    Known("iavf", "Failed to add VLAN filter", "pf_refused", "intel/iavf/iavf_virtchnl.c"),
    Known(
        "iavf",
        "Changing VLAN Stripping is not allowed when Port VLAN is configured",
        "pf_refused",
        "intel/iavf/iavf_virtchnl.c",
    ),
    Known("iavf", "Unable to allocate MSI-X interrupts", "no_msix", "intel/iavf/iavf_main.c"),
    Known("iavf", "Unable to setup interrupt capabilities", "no_msix", "intel/iavf/iavf_main.c"),
    Known("iavf", "NIC Link is Down", "link_lost", "intel/iavf/iavf_virtchnl.c"),
    Known(
        "iavf",
        "Failed to communicate with PF; waiting before retry",
        "port_was_down",
        "intel/iavf/iavf_main.c",
    ),
    Known("iavf", ", using random", "random_address", "intel/iavf/iavf_main.c"),
    Known("iavf", "Unable to get VF config", "port_was_down", "intel/iavf/iavf_main.c"),
    Known("ice", "tx_timeout: VSI_num", "transmit_stalled", "intel/ice/ice_main.c"),
    Known("ice", "tx_timeout recovery level", "transmit_stalled", "intel/ice/ice_main.c"),
    Known("ice", "tx_timeout recovery unsuccessful", "transmit_stalled", "intel/ice/ice_main.c"),
    Known("ice", "Fake Tx hang detected on queue", "transmit_stalled", "intel/ice/ice_main.c"),
    Known("ice", "Rebuild failed, unload and reload driver", "reset", "intel/ice/ice_main.c"),
    Known("ice", "control queues init failed", "reset", "intel/ice/ice_main.c"),
    Known("ice", "replay VSI failed", "reset", "intel/ice/ice_main.c"),
    Known("ice", "Wait for reset timed out", "reset", "intel/ice/ice_main.c"),
    Known(
        "ice",
        "TX driver issue detected, PF reset issued",
        "reset",
        "search:find_string id 268261177 (ice_main.c, kernel 5.x)",
    ),
    Known(
        "ice",
        "Rx/Tx is disabled on this device because an unsupported module type",
        "transceiver_refused",
        "intel/ice/ice_main.c",
    ),
    Known(
        "ice",
        "An unsupported module type was detected",
        "transceiver_refused",
        "intel/ice/ice_main.c",
    ),
    Known(
        "ice",
        "The installed module is incompatible with the device's NVM image",
        "transceiver_refused",
        "intel/ice/ice_main.c",
    ),
    Known(
        "ice",
        "Potential misconfiguration of the Ethernet port detected",
        "transceiver_refused",
        "intel/ice/ice_main.c",
    ),
    Known("ice", "NIC Link is Down", "link_lost", "intel/ice/ice_main.c"),
    Known("ice", "unrecoverable device error", "pcie_error", "intel/ice/ice_main.c"),
    Known("ice", "device is unrecoverable", "pcie_error", "intel/ice/ice_main.c"),
    Known(
        "ice",
        "stopped because the NVM image is newer than expected",
        "firmware_error",
        "intel/ice/ice_controlq.c",
    ),
    Known(
        "ice",
        "Device failed to load the FW for the external PHY",
        "firmware_error",
        "intel/ice/ice_main.c",
    ),
    Known("ice", "ice_wait_for_fw timed out", "firmware_error", "intel/ice/ice_main.c"),
    Known("ice", "unable to reserve MSI-X vectors", "no_msix", "intel/ice/ice_irq.c"),
    Known("ice", "not enough device MSI-X vectors", "no_msix", "intel/ice/ice_irq.c"),
    Known("ice", "not enough OS MSI-X vectors", "no_msix", "intel/ice/ice_irq.c"),
    Known(
        "ice",
        "power requirements exceed the device's power supply",
        "transceiver_refused",
        "intel/ice/ice_main.c",
    ),
    Known(
        "ice",
        "The DDP package file was not found or could not be read",
        "firmware_missing",
        "intel/ice/ice_main.c",
    ),
    Known("ice", "The DDP package file failed to load", "firmware_missing", "intel/ice/ice_main.c"),
    Known("ice", "Fail during requesting FW", "firmware_missing", "intel/ice/ice_main.c"),
    Known(
        "ice",
        "The device has a DDP package that is not supported by the driver",
        "firmware_missing",
        "intel/ice/ice_main.c",
    ),
    Known("ice", "The DDP package file is invalid", "firmware_missing", "intel/ice/ice_main.c"),
    Known(
        "ice",
        "The DDP package file version is lower than the driver supports",
        "firmware_missing",
        "intel/ice/ice_main.c",
    ),
    Known("ice", "its signature is not valid", "firmware_missing", "intel/ice/ice_main.c"),
    Known("ice", "ice_init_hw failed", "probe_failed", "intel/ice/ice_main.c"),
    Known("ice", "Malicious Driver Detection event", "vf_malicious", "intel/ice/ice_main.c"),
    Known(
        "ice",
        "generating asynchronous messages and may be overflowing the PF message queue",
        "vf_malicious",
        "intel/ice/ice_virtchnl.c",
    ),
    Known(
        "ice",
        "VF attempting to override administratively set MAC address",
        "vf_address_refused",
        "intel/ice/ice_virtchnl.c",
    ),
    Known(
        "ice",
        "Can't add more MAC addresses, because VF-",
        "vf_limit_reached",
        "intel/ice/ice_virtchnl.c",
    ),
    Known("ice", "is not trusted, switch the VF", "vf_limit_reached", "intel/ice/ice_virtchnl.c"),
    Known("ice", "Invalid message from VF", "vf_request_failed", "intel/ice/ice_virtchnl.c"),
    Known("ice", "Unsupported opcode", "vf_request_failed", "intel/ice/ice_virtchnl.c"),
    Known("ice", "PF failed to honor VF", "vf_request_failed", "intel/ice/ice_virtchnl.c"),
    Known(
        "ice",
        "failed opcode",
        "vf_request_failed",
        "search:torvalds/linux drivers/net/ethernet/intel/ice/ice_virtchnl_pf.c@000773c0",
    ),
    Known(
        "ice",
        "Number of invalid messages exceeded for VF",
        "vf_request_failed",
        "search:torvalds/linux drivers/net/ethernet/intel/ice/ice_virtchnl_pf.c@000773c0",
    ),
    Known("ice", "in reset. Try again", "vf_setting_failed", "intel/ice/ice_vf_lib.c"),
    Known("ice", "Setting MAC ", "vf_address_set", "intel/ice/ice_sriov.c"),
    Known(
        "ice",
        "MSI-X interrupts available for SR-IOV",
        "no_vf_interrupts",
        "intel/ice/ice_sriov.c (before 6.8)",
    ),
    Known("igb", "PCIe link lost", "device_gone", "intel/igb/igb_main.c"),
    Known("igb", "Failed to read reg 0x", "device_gone", "intel/igb/igb_main.c"),
    Known("igb", "Detected Tx Unit Hang", "transmit_stalled", "intel/igb/igb_main.c"),
    Known("igb", "Reset adapter", "reset", "intel/igb/igb_main.c"),
    Known("igb", "Hardware Error", "reset", "intel/igb/igb_main.c"),
    Known("igb", "NIC Link is Down", "link_lost", "intel/igb/igb_main.c"),
    Known("igb", "was stopped because it overheated", "hardware_fault", "intel/igb/igb_main.c"),
    Known("igb", "was downshifted because it overheated", "hardware_fault", "intel/igb/igb_main.c"),
    Known("igb", "The NVM Checksum Is Not Valid", "hardware_fault", "intel/igb/igb_main.c"),
    Known("igb", "NVM Read Error", "hardware_fault", "intel/igb/igb_main.c"),
    Known("igb", "Invalid MAC Address", "invalid_address", "intel/igb/igb_main.c"),
    Known("igb", "Spoof event(s) detected on VF", "vf_spoofs", "intel/igb/igb_main.c"),
    Known(
        "igb", "malformed Tx packet detected and dropped", "vf_malicious", "intel/igb/igb_main.c"
    ),
    Known(
        "igb",
        "requested MAC filter but is administratively denied",
        "vf_address_refused",
        "intel/igb/igb_main.c",
    ),
    Known(
        "igb",
        "attempted to override administratively set MAC address",
        "vf_address_refused",
        "intel/igb/igb_main.c",
    ),
    Known(
        "igb",
        "attempted to override administratively set VLAN tag",
        "vf_address_refused",
        "intel/igb/igb_main.c",
    ),
    Known("igb", "Non-correctable non-fatal error reported", "pcie_error", "intel/igb/igb_main.c"),
    Known("igb", "setting MAC ", "vf_address_set", "intel/igb/igb_main.c"),
    Known("igbvf", "Is the PF interface up?", "port_was_down", "intel/igbvf/netdev.c"),
    Known(
        "igbvf",
        "MAC address not assigned by administrator",
        "random_address",
        "intel/igbvf/netdev.c",
    ),
    Known("igbvf", "Assigning random MAC address", "random_address", "intel/igbvf/netdev.c"),
    Known("igbvf", "Link is Down", "link_lost", "intel/igbvf/netdev.c"),
    Known("igbvf", "Failed to initialize MSI-X interrupts", "no_msix", "intel/igbvf/netdev.c"),
    Known("igbvf", "is not added", "pf_refused", "intel/igbvf/netdev.c"),
    Known("igc", "PCIe link lost, device now detached", "device_gone", "intel/igc/igc_main.c"),
    Known("igc", "Failed to read reg 0x", "device_gone", "intel/igc/igc_main.c"),
    Known("igc", "Detected Tx Unit Hang", "transmit_stalled", "intel/igc/igc_main.c"),
    Known("igc", "Reset adapter", "reset", "intel/igc/igc_main.c"),
    Known("igc", "NIC Link is Down", "link_lost", "intel/igc/igc_main.c"),
    Known("igc", "The NVM Checksum Is Not Valid", "hardware_fault", "intel/igc/igc_main.c"),
    Known("igc", "NVM Read Error", "hardware_fault", "intel/igc/igc_main.c"),
    Known("igc", "Invalid MAC Address", "invalid_address", "intel/igc/igc_main.c"),
    Known("ixgbe", "Adapter removed", "device_gone", "intel/ixgbe/ixgbe_main.c"),
    Known("ixgbe", "Detected Tx Unit Hang", "transmit_stalled", "intel/ixgbe/ixgbe_main.c"),
    Known("ixgbe", "initiating reset due to tx timeout", "reset", "intel/ixgbe/ixgbe_main.c"),
    Known(
        "ixgbe",
        "initiating reset to clear Tx work after link loss",
        "reset",
        "intel/ixgbe/ixgbe_main.c",
    ),
    Known(
        "ixgbe",
        "initiating reset due to lost link with pending Tx work",
        "reset",
        "intel/ixgbe/ixgbe_main.c",
    ),
    Known("ixgbe", "Reset adapter", "reset", "intel/ixgbe/ixgbe_main.c"),
    Known(
        "ixgbe", "Received ECC Err, initiating reset", "hardware_fault", "intel/ixgbe/ixgbe_main.c"
    ),
    Known("ixgbe", "Hardware Error:", "reset", "intel/ixgbe/ixgbe_main.c"),
    Known(
        "ixgbe",
        "has been stopped because it has over heated",
        "hardware_fault",
        "intel/ixgbe/ixgbe_main.c",
    ),
    Known(
        "ixgbe",
        "Fan has stopped, replace the adapter",
        "hardware_fault",
        "intel/ixgbe/ixgbe_main.c",
    ),
    Known(
        "ixgbe",
        "failed to load because an unsupported SFP+ or QSFP module type was detected",
        "transceiver_refused",
        "intel/ixgbe/ixgbe_main.c",
    ),
    Known(
        "ixgbe",
        "failed to initialize because an unsupported SFP+ module type was detected",
        "transceiver_refused",
        "intel/ixgbe/ixgbe_main.c",
    ),
    Known(
        "ixgbe",
        "Warning firmware error detected FWSM",
        "firmware_error",
        "intel/ixgbe/ixgbe_main.c",
    ),
    Known("ixgbe", "Firmware recovery mode detected", "firmware_error", "intel/ixgbe/ixgbe_main.c"),
    Known("ixgbe", "Firmware rollback mode detected", "firmware_error", "intel/ixgbe/ixgbe_main.c"),
    Known("ixgbe", "resetting adapter", "transmit_stalled", "intel/ixgbe/ixgbe_main.c"),
    Known(
        "ixgbe", "The EEPROM Checksum Is Not Valid", "hardware_fault", "intel/ixgbe/ixgbe_main.c"
    ),
    Known("ixgbe", "invalid MAC address", "invalid_address", "intel/ixgbe/ixgbe_main.c"),
    Known("ixgbe", "NIC Link is Down", "link_lost", "intel/ixgbe/ixgbe_main.c"),
    Known("ixgbe", "Failed to allocate MSI-X interrupts", "no_msix", "intel/ixgbe/ixgbe_lib.c"),
    Known(
        "ixgbe",
        "Failed to allocate MSI interrupt, falling back to legacy",
        "no_msix",
        "intel/ixgbe/ixgbe_lib.c",
    ),
    Known("ixgbe", "Spoofed packets detected", "vf_spoofs", "intel/ixgbe/ixgbe_main.c"),
    Known(
        "ixgbe",
        "Malicious Driver Detection event detected on PF",
        "vf_malicious",
        "intel/ixgbe/ixgbe_main.c",
    ),
    Known("ixgbe", "Malicious event on VF", "vf_malicious", "intel/ixgbe/ixgbe_sriov.c"),
    Known(
        "ixgbe",
        "attempted to override administratively set MAC address",
        "vf_address_refused",
        "intel/ixgbe/ixgbe_sriov.c",
    ),
    Known(
        "ixgbe",
        "attempted to override administratively set VLAN configuration",
        "vf_address_refused",
        "intel/ixgbe/ixgbe_sriov.c",
    ),
    Known(
        "ixgbe",
        "requested MACVLAN filter but is administratively denied",
        "vf_address_refused",
        "intel/ixgbe/ixgbe_sriov.c",
    ),
    Known("ixgbe", "VF max_frame", "vf_request_failed", "intel/ixgbe/ixgbe_sriov.c"),
    Known("ixgbe", "has caused a PCIe error", "pcie_error", "intel/ixgbe/ixgbe_main.c"),
    Known("ixgbe", "setting MAC ", "vf_address_set", "intel/ixgbe/ixgbe_sriov.c"),
    Known("ixgbevf", "Adapter removed", "device_gone", "intel/ixgbevf/ixgbevf_main.c"),
    Known("ixgbevf", "Detected Tx Unit Hang", "transmit_stalled", "intel/ixgbevf/ixgbevf_main.c"),
    Known("ixgbevf", "NIC Link is Down", "link_lost", "intel/ixgbevf/ixgbevf_main.c"),
    Known(
        "ixgbevf", "VF is administratively disabled", "link_lost", "intel/ixgbevf/ixgbevf_main.c"
    ),
    Known("ixgbevf", "Is the PF interface up?", "port_was_down", "intel/ixgbevf/ixgbevf_main.c"),
    Known(
        "ixgbevf",
        "MAC address not assigned by administrator",
        "random_address",
        "intel/ixgbevf/ixgbevf_main.c",
    ),
    Known(
        "ixgbevf", "Assigning random MAC address", "random_address", "intel/ixgbevf/ixgbevf_main.c"
    ),
    Known(
        "ixgbevf",
        "Unable to start - perhaps the PF Driver isn't up yet",
        "port_was_down",
        "intel/ixgbevf/ixgbevf_main.c",
    ),
    Known("ixgbevf", "Failed to set MTU at", "pf_refused", "intel/ixgbevf/ixgbevf_main.c"),
    Known("ixgbevf", "VF could not set VLAN", "pf_refused", "intel/ixgbevf/ixgbevf_main.c"),
    Known("ixgbevf", "Last Request of type", "pf_refused", "intel/ixgbevf/ixgbevf_main.c"),
    Known(
        "ixgbevf", "Unable to allocate MSI-X interrupts", "no_msix", "intel/ixgbevf/ixgbevf_main.c"
    ),
    Known("mana", "HWC: Request timed out", "firmware_error", "microsoft/mana/hw_channel.c"),
    Known("mana", "HWC: Failed hw_channel req", "firmware_error", "microsoft/mana/hw_channel.c"),
    Known("mana", "Unexpected mana message response", "firmware_error", "microsoft/mana/mana_en.c"),
    Known("mana", "Timeout when setting up HWC", "firmware_error", "microsoft/mana/shm_channel.c"),
    Known("mana", "Failed to configure vPort", "firmware_error", "microsoft/mana/mana_en.c"),
    Known("mana", "pkts pending in txq", "reset", "microsoft/mana/mana_en.c"),
    Known("mana", "gdma probe failed: err", "probe_failed", "microsoft/mana/gdma_main.c"),
    Known("mana", "Probe Failed for port", "probe_failed", "microsoft/mana/mana_en.c"),
    Known("mana", "Failed to initialize HWC", "probe_failed", "microsoft/mana/hw_channel.c"),
    Known("mana", "TX: CQE error", "transmit_stalled", "microsoft/mana/mana_en.c"),
    Known("mana", "Register IRQ err", "no_msix", "microsoft/mana/gdma_main.c"),
    Known("mana", "SMC operation failed", "firmware_error", "microsoft/mana/shm_channel.c"),
    Known("mlx4_core", "Internal error detected", "firmware_error", "mellanox/mlx4/catas.c"),
    Known(
        "mlx4_core",
        "Internal error mark was detected on device",
        "firmware_error",
        "mellanox/mlx4/catas.c",
    ),
    Known("mlx4_core", "device is going to be reset", "reset", "mellanox/mlx4/catas.c"),
    Known("mlx4_core", "Fail to reset HCA", "reset", "mellanox/mlx4/catas.c"),
    Known(
        "mlx4_core", "VF is sending reset request to Firmware", "vf_reset", "mellanox/mlx4/catas.c"
    ),
    Known("mlx4_core", "Communication channel is offline.", "vf_reset", "mellanox/mlx4/main.c"),
    Known(
        "mlx4_core", "PF is not ready - Deferring probe", "port_was_down", "mellanox/mlx4/main.c"
    ),
    Known(
        "mlx4_core",
        "PF is not responsive, skipping initialization",
        "port_was_down",
        "mellanox/mlx4/main.c",
    ),
    Known("mlx4_core", "timed out (go bit not cleared)", "firmware_error", "mellanox/mlx4/cmd.c"),
    Known(
        "mlx4_core",
        "PCI device did not come back after reset",
        "device_gone",
        "mellanox/mlx4/reset.c",
    ),
    Known(
        "mlx4_core",
        "NOP command failed to generate MSI-X interrupt",
        "no_msix",
        "mellanox/mlx4/main.c",
    ),
    Known("mlx4_core", "Trying again without MSI-X", "no_msix", "mellanox/mlx4/main.c"),
    Known(
        "mlx4_core",
        "Temperature Threshold was reached! Threshold",
        "hardware_fault",
        "mellanox/mlx4/eq.c",
    ),
    Known("mlx4_core", "Bad cable detected on port", "transceiver_refused", "mellanox/mlx4/eq.c"),
    Known("mlx4_core", "Unsupported cable detected", "transceiver_refused", "mellanox/mlx4/eq.c"),
    Known(
        "mlx4_core",
        "MAC invalidation is not allowed when spoofchk is on",
        "vf_address_refused",
        "mellanox/mlx4/cmd.c",
    ),
    Known("mlx4_core", "Illegal MAC with spoofchk", "vf_address_refused", "mellanox/mlx4/cmd.c"),
    Known("mlx4_core", "VLAN is enforced on this port", "pf_refused", "mellanox/mlx4/fw.c"),
    Known("mlx4_core", "Force mac is enabled on this port", "pf_refused", "mellanox/mlx4/fw.c"),
    Known("mlx4_en", "Tx timeout called on port", "transmit_stalled", "mellanox/mlx4/en_netdev.c"),
    Known("mlx4_en", "TX timeout on queue", "transmit_stalled", "mellanox/mlx4/en_netdev.c"),
    Known(
        "mlx4_en",
        "Internal error detected, restarting device",
        "firmware_error",
        "mellanox/mlx4/en_main.c",
    ),
    Known("mlx4_en", "Scheduling port restart", "reset", "mellanox/mlx4/en_tx.c"),
    Known("mlx4_en", ": Link Down", "link_lost", "mellanox/mlx4/en_netdev.c"),
    Known("mlx4_en", "invalid mac burned", "invalid_address", "mellanox/mlx4/en_netdev.c"),
    Known("mlx4_en", "Assigned random MAC address", "random_address", "mellanox/mlx4/en_netdev.c"),
    Known("mlx5_core", "TX timeout detected", "transmit_stalled", "mellanox/mlx5/core/en_main.c"),
    Known(
        "mlx5_core",
        "TX timeout on queue",
        "transmit_stalled",
        "mellanox/mlx5/core/en/reporter_tx.c",
    ),
    Known(
        "mlx5_core",
        "RX timeout on channel",
        "transmit_stalled",
        "mellanox/mlx5/core/en/reporter_rx.c",
    ),
    Known("mlx5_core", "ERR CQE on SQ", "transmit_stalled", "mellanox/mlx5/core/en/reporter_tx.c"),
    Known(
        "mlx5_core",
        "failed recovering from a tx_timeout",
        "transmit_stalled",
        "mellanox/mlx5/core/en/reporter_tx.c",
    ),
    Known("mlx5_core", "No done completion", "firmware_error", "mellanox/mlx5/core/cmd.c"),
    Known(
        "mlx5_core",
        "device's health compromised - reached miss count",
        "firmware_error",
        "mellanox/mlx5/core/health.c",
    ),
    Known("mlx5_core", "Health issue observed", "firmware_error", "mellanox/mlx5/core/health.c"),
    Known("mlx5_core", "Fatal error 1 detected", "device_gone", "mellanox/mlx5/core/health.c"),
    Known("mlx5_core", "Fatal error 2 detected", "device_gone", "mellanox/mlx5/core/health.c"),
    Known("mlx5_core", "Fatal error 3 detected", "firmware_error", "mellanox/mlx5/core/health.c"),
    Known("mlx5_core", "Fatal error 5 detected", "firmware_error", "mellanox/mlx5/core/health.c"),
    Known("mlx5_core", "Fatal error 4 detected", "reset", "mellanox/mlx5/core/health.c"),
    Known("mlx5_core", "handling bad device here", "firmware_error", "mellanox/mlx5/core/health.c"),
    Known("mlx5_core", "health recovery failed", "firmware_error", "mellanox/mlx5/core/health.c"),
    Known("mlx5_core", "Waiting for FW", "firmware_error", "mellanox/mlx5/core/main.c"),
    Known("mlx5_core", "enable hca failed", "firmware_error", "mellanox/mlx5/core/main.c"),
    Known("mlx5_core", "Issuing FW Reset", "reset", "mellanox/mlx5/core/health.c"),
    Known("mlx5_core", "NIC SW reset in progress", "reset", "mellanox/mlx5/core/health.c"),
    Known("mlx5_core", "Got Device Reset", "reset", "mellanox/mlx5/core/fw_reset.c"),
    Known(
        "mlx5_core",
        "health recovery flow aborted, PCI reads still not working",
        "device_gone",
        "mellanox/mlx5/core/health.c",
    ),
    Known(
        "mlx5_core",
        "reset reload flow aborted, PCI reads still not working",
        "device_gone",
        "mellanox/mlx5/core/fw_reset.c",
    ),
    Known("mlx5_core", "PCI channel offline", "device_gone", "mellanox/mlx5/core/fw.c"),
    Known("mlx5_core", "PCI link not ready", "device_gone", "mellanox/mlx5/core/fw_reset.c"),
    Known(
        "mlx5_core", "mlx5_pci_err_detected Device state", "pcie_error", "mellanox/mlx5/core/main.c"
    ),
    Known(
        "mlx5_core",
        "mlx5_init_one failed with error code",
        "probe_failed",
        "mellanox/mlx5/core/main.c",
    ),
    Known(
        "mlx5_core",
        "mlx5_load_one failed with error code",
        "probe_failed",
        "search:PeterSuh-Q3/tinycore-redpill#9",
    ),
    Known(
        "mlx5_core",
        "mlx5_pci_init failed with error code",
        "probe_failed",
        "mellanox/mlx5/core/main.c",
    ),
    Known("mlx5_core", "Failed to alloc IRQs", "no_msix", "mellanox/mlx5/core/main.c"),
    Known("mlx5_core", "failed to initialize irq table", "no_msix", "mellanox/mlx5/core/main.c"),
    Known("mlx5_core", ": Link down", "link_lost", "mellanox/mlx5/core/en_main.c"),
    Known(
        "mlx5_core",
        "High temperature on sensors with bit set",
        "hardware_fault",
        "mellanox/mlx5/core/events.c",
    ),
    Known("mlx5_core", "High Temperature", "hardware_fault", "mellanox/mlx5/core/events.c"),
    Known(
        "mlx5_core",
        "Port module event[error]",
        "transceiver_refused",
        "mellanox/mlx5/core/events.c",
    ),
    Known(
        "mlx5_core",
        "Set invalid MAC while spoofchk is on, vport",
        "vf_address_refused",
        "mellanox/mlx5/core/eswitch.c",
    ),
    Known(
        "mlx5_core",
        "Spoofchk in set while MAC is invalid, vport",
        "vf_address_refused",
        "mellanox/mlx5/core/esw/legacy.c",
    ),
    Known(
        "mlx5_core", "Assigned random MAC address", "random_address", "mellanox/mlx5/core/en_main.c"
    ),
    Known("r8125", "rtl_rxtx_empty_cond ==", "transmit_stalled", "r8125 (build of OpenWrt)"),
    Known("r8125", "Transmit timeout reset Device!", "transmit_stalled", "src/r8125_n.c"),
    Known("r8125", "Device reseting!", "reset", "src/r8125_n.c"),
    Known("r8125", "Random ether addr", "random_address", "src/r8125_n.c"),
    Known("r8168", "Transmit timeout reset Device!", "transmit_stalled", "src/r8168_n.c"),
    Known("r8168", "Device reseting!", "reset", "src/r8168_n.c"),
    Known("r8168", "Random ether addr", "random_address", "src/r8168_n.c"),
    Known("r8169", "ASPM disabled on Tx timeout", "transmit_stalled", "realtek/r8169_main.c"),
    Known("r8169", "rtl_rxtx_empty_cond ==", "transmit_stalled", "realtek/r8169_main.c"),
    Known(
        "r8169", "Can't reset secondary PCI bus, detach NIC", "device_gone", "realtek/r8169_main.c"
    ),
    Known("r8169", "PCI error (cmd =", "pcie_error", "realtek/r8169_main.c"),
    Known("r8169", "PCI read failed", "device_gone", "realtek/r8169_main.c"),
    Known("r8169", "Unable to load firmware", "firmware_missing", "realtek/r8169_firmware.c"),
    Known("r8169", "unable to load firmware patch", "firmware_missing", "realtek/r8169.c"),
    Known("r8169", "contact r8169 maintainers", "probe_failed", "realtek/r8169_main.c"),
    Known(
        "r8169", "no dedicated PHY driver found for PHY ID", "probe_failed", "realtek/r8169_main.c"
    ),
    Known(
        "r8169",
        "can't read MAC address, setting random one",
        "random_address",
        "realtek/r8169_main.c",
    ),
    Known("r8169", "rtl_eriar_cond ==", "device_gone", "realtek/r8169_main.c"),
    Known("r8169", "rtl_mac_ocp_e00e_cond ==", "device_gone", "realtek/r8169_main.c"),
    Known("sfc", "TX stuck with port_enabled=", "transmit_stalled", "sfc/efx_common.c"),
    Known("sfc", "failed to reset hardware", "reset", "sfc/efx_common.c"),
    Known("sfc", "device is disabled due to earlier errors", "device_gone", "sfc/efx.c"),
    Known("sfc", "has been disabled", "device_gone", "sfc/efx_common.c"),
    Known("sfc", "failed to initialise NIC", "probe_failed", "sfc/efx.c"),
    Known("sfc", "MC reboot detected", "firmware_error", "sfc/mcdi.c"),
    Known("sfc", "MC watchdog or assertion failure", "firmware_error", "sfc/mcdi.c"),
    Known("sfc", "mode 0 timed out", "firmware_error", "sfc/mcdi.c"),
    Known("sfc", "mode 1 timed out", "firmware_error", "sfc/mcdi.c"),
    Known("sfc", "DMA error (event:", "hardware_fault", "sfc/mcdi.c"),
    Known("sfc", "reports condition", "hardware_fault", "sfc/mcdi_mon.c"),
    Known(
        "sfc",
        "Cannot change MAC address; use sfboot to enable mac-spoofing on this interface",
        "pf_refused",
        "sfc/ef10.c",
    ),
    Known("sfc", "Could not get the PF id from VF", "pf_refused", "sfc/ef10.c"),
    Known("sfc", "The VF cannot link to its parent PF", "pf_refused", "sfc/ef10.c"),
    Known("sfc", "Insufficient MSI-X vectors available", "no_msix", "sfc/efx_channels.c"),
    Known("sfc", "could not enable MSI", "no_msix", "sfc/efx_channels.c"),
    Known("sfc", "Cannot re-enable PCI device after reset", "pcie_error", "sfc/efx_common.c"),
    Known("sfc", "Hardware unavailable", "device_gone", "sfc/ef100_nic.c"),
    Known("sfc", "invalid ethernet MAC address requested", "invalid_address", "sfc/efx_common.c"),
    Known("sfc", ": resetting (", "reset", "sfc/efx_common.c"),
    Known("tg3", "transmit timed out, resetting", "transmit_stalled", "broadcom/tg3.c"),
    Known("tg3", ". Resetting chip", "reset", "broadcom/tg3.c"),
    Known("tg3", "tg3_stop_block timed out", "reset", "broadcom/tg3.c"),
    Known("tg3", "tg3_stop_block device offline", "device_gone", "broadcom/tg3.c"),
    Known("tg3", "PCI channel ERROR!", "device_gone", "broadcom/tg3.c"),
    Known("tg3", "PCI I/O error detected", "pcie_error", "broadcom/tg3.c"),
    Known("tg3", "Failed to load firmware", "firmware_missing", "broadcom/tg3.c"),
    Known("tg3", "timed out, RX CPU", "firmware_error", "broadcom/tg3.c"),
    Known("tg3", "timed out, TX CPU", "firmware_error", "broadcom/tg3.c"),
    Known("tg3", "No PHY devices", "hardware_fault", "broadcom/tg3.c"),
    Known("tg3", "Could not attach to PHY", "hardware_fault", "broadcom/tg3.c"),
    Known("tg3", "phy probe failed", "hardware_fault", "broadcom/tg3.c"),
    Known(
        "tg3",
        "No interrupt was generated using MSI. Switching to INTx mode",
        "no_msix",
        "broadcom/tg3.c",
    ),
    Known("tg3", "MSI-X vectors, received", "no_msix", "broadcom/tg3.c"),
    Known("tg3", "Problem fetching invariants of chip", "probe_failed", "broadcom/tg3.c"),
    Known("tg3", "DMA engine test failed", "probe_failed", "broadcom/tg3.c"),
    Known("tg3", "Link is down", "link_lost", "broadcom/tg3.c"),
    Known("tg3", "Could not obtain a valid ethernet address", "invalid_address", "broadcom/tg3.c"),
    Known("vfio-pci", "; giving up", "passthrough_failed", "pci/pci.c"),
    Known("vfio-pci", "change power state", "passthrough_failed", "pci/pci.c"),
    Known(
        "vfio-pci",
        "Cannot bind to PF with SR-IOV enabled",
        "passthrough_failed",
        "vfio/pci/vfio_pci_core.c",
    ),
    Known("vfio-pci", "runtime resume failed", "passthrough_failed", "vfio/pci/vfio_pci_core.c"),
    Known(
        "vfio-pci",
        "VF token required to access device",
        "passthrough_failed",
        "vfio/pci/vfio_pci_core.c",
    ),
    Known("virtio_net", "TX timeout on queue:", "transmit_stalled", "virtio_net.c"),
    Known("virtio_net", "Assigned random MAC address", "random_address", "virtio_net.c"),
    Known("vmxnet3", "NIC Link is Down", "link_lost", "vmxnet3/vmxnet3_drv.c"),
    Known("vmxnet3", "failed to re-create rx queues", "reset", "vmxnet3/vmxnet3_drv.c"),
    Known("vmxnet3", "failed to re-activate", "reset", "vmxnet3/vmxnet3_drv.c"),
    Known("vmxnet3", "Failed to activate dev: error", "open_failed", "vmxnet3/vmxnet3_drv.c"),
    Known("vmxnet3", "Failed to init rx queue error", "open_failed", "vmxnet3/vmxnet3_drv.c"),
    Known("vmxnet3", "failed to allocate tx ring", "open_failed", "vmxnet3/vmxnet3_drv.c"),
    Known("vmxnet3", "Limiting #rx queues to 1, try MSI", "no_msix", "vmxnet3/vmxnet3_drv.c"),
    Known("vmxnet3", "Incompatible h/w version", "probe_failed", "vmxnet3/vmxnet3_drv.c"),
    Known("vmxnet3", "Incompatible upt version", "probe_failed", "vmxnet3/vmxnet3_drv.c"),
    Known("vmxnet3", "Failed to enable adapter: error", "probe_failed", "vmxnet3/vmxnet3_drv.c"),
    Known("vmxnet3", ": tx hang", "transmit_stalled", "vmxnet3/vmxnet3_drv.c"),
    Known("vmxnet3", ": resetting", "reset", "vmxnet3/vmxnet3_drv.c"),
    Known("vmxnet3", ": intr type ", "interrupt_type", "vmxnet3/vmxnet3_drv.c"),
    Known("alx", "Enabling MSI-X interrupts failed", "no_msix", "atheros/alx/main.c"),
    Known("bnx2", "Can't load firmware file", "firmware_missing", "broadcom/bnx2.c"),
    Known(
        "any",
        "The number of lost tx completions is above the threshold",
        "reset",
        "amazon/ena/ena_netdev.c",
    ),
    Known("any", "TX timeout on queue", "transmit_stalled", "qlogic/qede/qede_main.c"),
    Known(
        "any", "is stuck, requesting MCP to drain", "transmit_stalled", "qlogic/qede/qede_main.c"
    ),
    Known("any", "Starting a recovery process", "reset", "qlogic/qede/qede_main.c"),
    Known(
        "any",
        "Recovery handling has failed. Power cycle is needed.",
        "device_gone",
        "qlogic/qede/qede_main.c",
    ),
    Known("any", "Link is down", "link_lost", "qlogic/qede/qede_main.c"),
    Known("any", "The MFW failed to respond to command", "firmware_error", "qlogic/qed/qed_mcp.c"),
    Known(
        "any", "The MFW is not responsive. Avoid sending", "firmware_error", "qlogic/qed/qed_mcp.c"
    ),
    Known(
        "any",
        "The MFW notified that a critical error occurred in the device",
        "firmware_error",
        "qlogic/qed/qed_mcp.c",
    ),
    Known(
        "any",
        "Fan failure was detected on the network interface card",
        "hardware_fault",
        "qlogic/qed/qed_mcp.c",
    ),
    Known("any", "- Malicious behavior [", "vf_malicious", "qlogic/qed/qed_sriov.c"),
    Known("any", "NETDEV WATCHDOG: ", "transmit_stalled", "net/sched/sch_generic.c"),
    Known("any", "IPv6 duplicate address", "duplicate_address", "net/ipv6/addrconf.c"),
    Known("any", "IPv6 being disabled!", "duplicate_address", "net/ipv6/addrconf.c"),
    Known("any", "with own address as source address", "own_address", "net/bridge/br_fdb.c"),
    Known("any", "BUG: soft lockup - CPU#", "cpu_starved", "kernel/watchdog.c"),
    Known("any", "self-detected stall on CPU", "cpu_starved", "kernel/rcu/tree_stall.h"),
    Known("any", "detected stalls on CPUs/tasks", "cpu_starved", "kernel/rcu/tree_stall.h"),
    Known("any", "blocked for more than", "cpu_starved", "kernel/hung_task.c"),
    Known("any", "Watchdog detected hard LOCKUP on cpu", "cpu_starved", "kernel/watchdog.c"),
    Known("any", "neighbor table overflow", "neighbours_full", "net/core/neighbour.c"),
    Known(
        "any", "eighbour table overflow", "neighbours_full", "net/core/neighbour.c (before 4.14)"
    ),
    Known(
        "any", "nf_conntrack: table full", "connections_full", "net/netfilter/nf_conntrack_core.c"
    ),
    Known("any", "martian source ", "martian", "net/ipv4/route.c"),
    Known("any", ": renamed from ", "renamed", "net/core/dev.c"),
    Known(
        "any",
        "Failed to rename network interface",
        "rename_failed",
        "systemd: src/udev/udev-event.c",
    ),
    Known("any", "RLIMIT_MEMLOCK (", "memory_locked", "vfio/vfio_iommu_type1.c"),
    Known("any", "Link is Down", "link_lost", "net/phy/phy.c"),
    Known("any", "adding VLAN 0 to HW filter on device", "link_opened", "net/8021q/vlan.c"),
    Known("any", "pci link is down", "device_gone", "r8125: r8125_n.c"),
    Known("any", "FW STALL Detected", "rdma_stalled", "infiniband/hw/bnxt_re/qplib_rcfw.c"),
    Known("pci", "probe with driver", "probe_failed", "base/dd.c"),
    Known("pci", "probe of 0000:", "probe_failed", "base/dd.c"),
    Known("pci", "Direct firmware load for", "firmware_missing", "base/firmware_loader/main.c"),
    Known("pci", "firmware: failed to load", "firmware_missing", "base/firmware_loader/main.c"),
    Known("pci", "PCIe Bus Error: severity=", "pcie_error", "pci/pcie/aer.c"),
    Known("pci", "error message received from", "pcie_error", "pci/pcie/aer.c"),
    Known("pci", "error received:", "pcie_error", "pci/pcie/aer.c"),
    Known("pci", "can't recover (", "pcie_error", "pci/pcie/err.c"),
    Known("pci", "evice recovery failed", "pcie_error", "pci/pcie/err.c"),
    Known("pci", "containment event, status:", "pcie_error", "pci/pcie/dpc.c"),
    Known("pci", "unmasked uncorrectable error detected", "pcie_error", "pci/pcie/dpc.c"),
    Known("pci", "detected, remove downstream devices", "pcie_error", "pci/pcie/dpc.c"),
    Known("pci", "; giving up", "device_gone", "pci/pci.c"),
    Known("pci", "change power state from", "device_gone", "pci/pci.c"),
    Known("pci", "Refused to change power state", "device_gone", "pci/pci.c (before 5.17)"),
    Known("pci", "Device config space inaccessible; unable to", "device_gone", "pci/pci.c"),
    Known(
        "pci",
        "Firmware has requested this device have a 1:1 IOMMU mapping",
        "passthrough_failed",
        "iommu/iommu.c",
    ),
    Known(
        "pci",
        "Device is ineligible for IOMMU domain attach due to platform RMRR requirement",
        "passthrough_failed",
        "iommu/intel-iommu.c",
    ),
    Known("pci", "] Request device [", "iommu_fault", "iommu/intel/dmar.c"),
    Known("pci", "Event logged [IO_PAGE_FAULT", "iommu_fault", "iommu/amd/iommu.c"),
    Known("pci", "Event logged [ILLEGAL_DEV_TABLE_ENTRY", "iommu_fault", "iommu/amd/iommu.c"),
    Known("pci", "Event logged [INVALID_DEVICE_REQUEST", "iommu_fault", "iommu/amd/iommu.c"),
    Known(
        "pci",
        "Blocked an interrupt request due to source-id verification failure",
        "iommu_fault",
        "iommu/intel/dmar.c",
    ),
    Known("pci", "not enough MMIO resources for SR-IOV", "no_vf_resources", "pci/iov.c"),
    Known("pci", "SR-IOV: IOV BARS not allocated", "no_vf_resources", "pci/iov.c"),
    Known("pci", "SR-IOV: bus number out of range", "no_vf_resources", "pci/iov.c (before 5.13)"),
    Known("pci", "out of range of [bus", "no_vf_resources", "pci/iov.c"),
    Known("pci", "available PCIe bandwidth", "pcie_bandwidth", "pci/pci.c"),
    Known("pci", "]: can't assign; no space", "no_bar", "pci/setup-res.c"),
    Known("pci", ": no space for [", "no_bar", "pci/setup-res.c (before 6.8)"),
    Known("pci", "can't enable device: BAR", "no_bar", "pci/setup-res.c"),
    Known("pci", "can't reserve [", "no_bar", "pci/pci.c"),
    Known("pci", "not claimed; can't enable device", "no_bar", "pci/setup-res.c"),
    Known("pci", "not assigned; can't enable device", "no_bar", "pci/setup-res.c"),
)


def _by_driver() -> dict[str, tuple[Known, ...]]:
    found: dict[str, tuple[Known, ...]] = {}
    for known in TABLE:
        found[known.driver] = (*found.get(known.driver, ()), known)
    return found


BY_DRIVER = _by_driver()
UNBOUND = (*BY_DRIVER[ANY], *BY_DRIVER[PCI])
UNBOUND_TEXTS = tuple(known.text.encode() for known in UNBOUND)
DRIVER_TEXTS = {
    driver.encode(): tuple(known.text.encode() for known in entries)
    for driver, entries in BY_DRIVER.items()
    if driver not in (ANY, PCI)
}


def is_candidate(record: bytes) -> bool:
    """Whether a record of /dev/kmsg may have a text of the table; cheap, and true too often rather
    than too rarely."""
    return _has_driver_text(record) or any(text in record for text in UNBOUND_TEXTS)


def candidates(records: Sequence[bytes]) -> Iterator[tuple[int, bytes]]:
    """Those for which `is_candidate` is true, with their place. Texts of any driver are looked for
    in all records at once, which takes a tenth of the time: most are in none."""
    joined = b"\n".join(records)
    present = [text for text in UNBOUND_TEXTS if text in joined]
    for place, record in enumerate(records):
        if _has_driver_text(record) or any(text in record for text in present):
            yield place, record


def _has_driver_text(record: bytes) -> bool:
    """The record begins with a driver of the table, and has one of its texts."""
    start = record.find(b";") + 1
    word = record[start : start + MAX_FIRST_WORD_BYTES].split(b" ", 1)[0].rstrip(b":")
    return any(text in record for text in DRIVER_TEXTS.get(word, ()))


def find_known(text: str) -> Known | None:
    """The entry of a message with folded white space; None: it is not in the table."""
    driver = text.partition(" ")[0].rstrip(":")
    for known in BY_DRIVER.get(driver, ()):
        if known.text in text:
            return known
    for known in UNBOUND:
        if known.text in text:
            return known
    return None
