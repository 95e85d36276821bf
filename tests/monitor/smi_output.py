"""What nvidia-smi writes, made up from what several drivers wrote."""

from __future__ import annotations

from collections.abc import Mapping

UUIDS = tuple(f"GPU-8932f937-d72c-4106-c12f-20bd9faed9f{number}" for number in range(8))

GPU = """\
  <gpu id="00000000:{bus}:00.0">
    <product_name>Tesla V100-SXM2-32GB</product_name>
    <mig_mode><current_mig>N/A</current_mig><pending_mig>N/A</pending_mig></mig_mode>
    <mig_devices>None</mig_devices>
    <uuid>{uuid}</uuid>
    <minor_number>{minor}</minor_number>
    <pci><pci_bus>{bus}</pci_bus><pci_bus_id>00000000:{bus}:00.0</pci_bus_id></pci>
    <clocks_throttle_reasons>
      <clocks_throttle_reason_gpu_idle>Not Active</clocks_throttle_reason_gpu_idle>
      <clocks_throttle_reason_sw_power_cap>Active</clocks_throttle_reason_sw_power_cap>
    </clocks_throttle_reasons>
    <fb_memory_usage><total>32510 MiB</total><reserved>0 MiB</reserved><used>1024 MiB</used><free>31486 MiB</free></fb_memory_usage>
    <utilization><gpu_util>35 %</gpu_util><memory_util>12 %</memory_util><encoder_util>0 %</encoder_util></utilization>
    <ecc_errors>
      <volatile>
        <single_bit><device_memory>1</device_memory><total>1</total></single_bit>
        <double_bit><device_memory>0</device_memory><total>0</total></double_bit>
      </volatile>
      <aggregate><single_bit><total>99</total></single_bit><double_bit><total>98</total></double_bit></aggregate>
    </ecc_errors>
    <temperature><gpu_temp>41 C</gpu_temp><gpu_temp_max_threshold>90 C</gpu_temp_max_threshold></temperature>
    <power_readings><power_state>P0</power_state><power_draw>55.12 W</power_draw></power_readings>
    <supported_clocks><supported_mem_clock><value>877 MHz</value></supported_mem_clock></supported_clocks>
    <processes>
      <process_info><pid>4711</pid><type>C</type><used_memory>1000 MiB</used_memory></process_info>
    </processes>
  </gpu>
"""


def gpu(number: int, changes: Mapping[str, str] | None = None) -> str:
    """One card; texts of it replaced, each of which must be there."""
    text = GPU.format(bus=f"{0x21 + number:02X}", uuid=UUIDS[number], minor=number)
    for old, new in (changes or {}).items():
        assert old in text, old
        text = text.replace(old, new)
    return text


def log(*gpus: str, attached: int | None = None) -> str:
    return (
        '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v11.dtd">\n<nvidia_smi_log>\n'
        "  <timestamp>Mon Nov 30 12:00:00 2020</timestamp>\n  <driver_version>450.80.02</driver_version>\n"
        f"  <attached_gpus>{len(gpus) if attached is None else attached}</attached_gpus>\n{''.join(gpus)}</nvidia_smi_log>\n"
    )
