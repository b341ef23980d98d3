"""Numbers from outside through the real libraries: an HTTP server, a pseudo-terminal, a small loopback MQTT broker."""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from devmind.errors import SensorError, StaleReading
from devmind.testing import check_sensor
from sensors import device
from sensors.environment import Environment, parse_numbers


def read(sensor, wanted=lambda numbers: True, seconds=5.0):
    """The first reading for which `wanted` holds."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            numbers = sensor.read_latest(5.0)[0]
            if wanted(numbers):
                return numbers.tolist()
        except StaleReading:
            pass
        time.sleep(0.01)
    raise AssertionError(f"nothing that was wanted came: {sensor.health.fault}")


@pytest.fixture
def weather():
    """A JSON address that answers with `.said`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            body = self.server.said.encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format, *args):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.said = json.dumps({"in": {"t": 21.5}, "light": 300, "name": "hall", "on": True})
        server.url = f"http://127.0.0.1:{server.server_address[1]}/now"
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server
        server.shutdown()


def test_http_numbers_keep_the_laws_of_sensors(weather):
    check_sensor(lambda: Environment(weather.url, period_s=0.02))
    check_sensor(lambda: Environment(weather.url, ["in.t", "light"], sense="hall", low=0, high=1e4, period_s=0.02))


def test_names_select_and_order_the_numbers(weather):
    with Environment(weather.url, ["light", "in.t"], period_s=0.02) as hall:
        assert read(hall) == [300, 21.5]
        weather.said = json.dumps({"in": {"t": 22}, "light": 1})
        assert read(hall, lambda numbers: numbers[0] == 1) == [1, 22]


def test_messages_that_do_not_fit_are_dropped_and_the_last_reading_ages(weather):
    with Environment(weather.url, period_s=0.02, sense="hall", size=1, high=1000) as hall:
        assert read(hall) == [300]
        for wrong in ("[1, 2]", "5000", '{"t": null}', "[NaN]", "<html>"):
            weather.said, before = wrong, hall.drops
            until = time.monotonic() + 30
            while hall.drops <= before + 1 and time.monotonic() < until:
                time.sleep(0.01)
            assert hall.drops > before + 1, wrong
        with pytest.raises(StaleReading, match="old"):
            hall.read_latest(0.05)


def test_lines_are_read_from_a_serial_port():
    ours, theirs = os.openpty()
    name = os.ttyname(theirs)
    with Environment(f"serial://{name}?baud=115200") as sensor:
        time.sleep(0.1)
        os.write(ours, b"garbage that begins in the midd")
        os.write(ours, b"le\n21.5, 4")
        time.sleep(0.25)  # longer than one read waits, so the line comes in two parts
        os.write(ours, b"0\n")
        assert read(sensor) == [21.5, 40]
    os.close(ours)
    os.close(theirs)


class Broker:
    """As much of MQTT 3.1.1 as one subscriber needs: CONNACK, SUBACK, PUBLISH with QoS 0."""

    def __init__(self, granted=b"\x00"):
        self._granted = granted
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.subscribed = threading.Event()
        self.login = b""
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                self._client, _ = self._listening.accept()
            except OSError:
                return
            kind, body = self._packet()
            assert kind == 0x10
            self.login = body
            self._client.sendall(b"\x20\x02\x00\x00")
            kind, body = self._packet()
            if kind != 0x82:  # it subscribes to nothing and goes
                continue
            self._client.sendall(b"\x90\x03" + body[:2] + self._granted)
            self.subscribed.set()

    def _packet(self):
        kind, length = self._client.recv(2) or b"\0\0"
        return kind, self._client.recv(length)

    def publish(self, topic, payload, retained=False):
        body = struct.pack(">H", len(topic)) + topic + payload
        self._client.sendall(bytes([0x30 | retained, len(body)]) + body)

    def drop(self):
        self.subscribed.clear()
        self._client.shutdown(socket.SHUT_RDWR)
        self._client.close()

    def close(self):
        self._listening.close()


def test_messages_resume_when_a_broker_comes_back(monkeypatch):
    monkeypatch.setattr(device, "FIRST_PAUSE_S", 0.05)
    broker = Broker()
    with Environment(f"mqtt://me:s3cret@127.0.0.1:{broker.port}/home/hall", ["t", "h"]) as sensor:
        assert broker.subscribed.wait(30)
        assert b"s3cret" in broker.login
        broker.publish(b"home/hall", b"t=21.5 h=40")
        assert read(sensor) == [21.5, 40]
        broker.drop()
        assert broker.subscribed.wait(30), sensor.health.fault
        broker.publish(b"home/hall", b'{"t": 1, "h": 2}')
        assert read(sensor, lambda numbers: numbers[0] == 1) == [1, 2]
        assert sensor.health.reconnects == 1
        assert "s3cret" not in sensor.health.fault
    broker.close()


def test_a_retained_message_is_left_out_as_its_age_is_unknown():
    broker = Broker()
    with Environment(f"mqtt://127.0.0.1:{broker.port}/home/hall") as sensor:
        assert broker.subscribed.wait(30)
        broker.publish(b"home/hall", b"1", retained=True)
        until = time.monotonic() + 30
        while not sensor.health.fault and time.monotonic() < until:
            time.sleep(0.01)
        with pytest.raises(StaleReading, match="its age is unknown"):
            sensor.read_latest(5.0)
        broker.publish(b"home/hall", b"2")
        assert read(sensor) == [2]
    broker.close()


@pytest.mark.parametrize(
    ("path", "granted", "why"), [("", b"\x00", "must end with a topic"), ("/home/hall", b"\x80", "refuses the topic")]
)
def test_a_topic_without_messages_is_stale_with_the_reason(path, granted, why):
    broker = Broker(granted)
    with Environment(f"mqtt://127.0.0.1:{broker.port}{path}") as sensor:
        until = time.monotonic() + 30
        while not sensor.health.fault and time.monotonic() < until:
            time.sleep(0.01)
        with pytest.raises(StaleReading, match=why):
            sensor.read_latest(1.0)
    broker.close()


def test_an_unreachable_address_is_stale_with_the_reason():
    with Environment("http://127.0.0.1:9/nothing") as sensor:
        until = time.monotonic() + 30
        while not sensor.health.fault and time.monotonic() < until:
            time.sleep(0.01)
        with pytest.raises(StaleReading, match="refused"):
            sensor.read_latest(1.0)


@pytest.mark.parametrize(
    ("message", "names", "numbers"),
    [
        ("21.5", (), [21.5]),
        ("[1, 2.5]", (), [1, 2.5]),
        ("1;2 3,4", (), [1, 2, 3, 4]),
        ('{"b": 2, "a": 1, "text": "x", "yes": true}', (), [1, 2]),
        ('{"b": {"c": 2}, "a.d": 1}', ("a.d", "b.c"), [1, 2]),
        ("t:1 h=2", ("h",), [2]),
    ],
)
def test_numbers_are_parsed_from_messages(message, names, numbers):
    found = parse_numbers(message, names)
    assert found.dtype == np.float32
    assert found.tolist() == numbers


@pytest.mark.parametrize(
    "message",
    [
        "",
        "hello",
        "[]",
        "[true]",
        '{"a": "one"}',
        "Infinity",
        "1e999",
        "1e39",
        "9" * 400,
        "[[1]]",
        "[" * 60_000,
        "t=1 2",
    ],
)
def test_messages_without_finite_numbers_are_refused(message):
    with pytest.raises(ValueError, match="Numbers were expected"):
        parse_numbers(message)


def test_invalid_settings_raise_a_sensor_error():
    with pytest.raises(SensorError, match="must begin with"):
        Environment("ftp://host/file")
    with pytest.raises(SensorError, match="its space must be known"):
        Environment("http://127.0.0.1/x", sense="weather")


def test_a_missing_library_error_names_the_extra(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "serial", None)
    with pytest.raises(SensorError, match=r"devmind\[sensors\]"), Environment("serial:///dev/null"):
        pass


@pytest.mark.parametrize(
    ("message", "names", "numbers"),
    [
        ('{"temperature": "21.5", "humidity": "40", "state": "on"}', (), [40, 21.5]),
        (
            '{"StatusSNS": {"Time": "2026-01-01T10:00:00", "AM2301": {"Temperature": 21.5, "Humidity": 40}}}',
            (),
            [40, 21.5],
        ),
        ('{"light": 300, "update": {"version": 7}}', (), [300]),
        ('["1e1", 2]', (), [10, 2]),
        ('"-3.5"', (), [-3.5]),
        ('{"a": {"b": "7"}, "c": 1}', ("c", "a.b"), [1, 7]),
    ],
)
def test_numbers_are_read_as_home_sensors_send_them(message, names, numbers):
    assert parse_numbers(message, names).tolist() == numbers


@pytest.mark.parametrize(
    "message", ['{"t": "unavailable"}', '"nan"', '{"t": "0x10"}', '{"a": {"t": "1_0"}}', "offline"]
)
def test_texts_that_are_no_numbers_are_refused(message):
    with pytest.raises(ValueError, match="Numbers were expected"):
        parse_numbers(message)


def test_wanted_numbers_are_named_in_the_address(weather):
    with Environment(f"{weather.url}#light,in.t", period_s=0.02) as hall:
        assert read(hall) == [300, 21.5]
    with pytest.raises(SensorError, match="%23"):
        Environment("mqtt://host/home/#")
